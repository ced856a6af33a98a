//! Merging one cluster's kubeconfig into a file that holds others.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::CliError;

/// The entry of one cluster, taken out of its own kubeconfig and given names that no other cluster has.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    cluster: Value,
    user: Value,
}

impl Entry {
    /// Takes the current context's cluster and user.
    pub(crate) fn from_kubeconfig(text: &str, namespace: &str, cluster: &str) -> Result<Self, String> {
        let config: Value = serde_saphyr::from_str(text).map_err(|error| format!("is no YAML: {error}"))?;
        let current = config.get("current-context").and_then(Value::as_str).unwrap_or_default();
        let context = named(&config, "contexts", current, "context").ok_or("has no current context")?;
        let field = |name: &str| context.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            name: format!("{namespace}-{cluster}"),
            cluster: named(&config, "clusters", field("cluster"), "cluster")
                .ok_or("its context names no known cluster")?
                .clone(),
            user: named(&config, "users", field("user"), "user").ok_or("its context names no known user")?.clone(),
        })
    }

    /// Puts the entry into `config`, in place of one of the same name; everything else stays. The current context is
    /// set only where there is none.
    pub(crate) fn merge_into(&self, config: &mut Map<String, Value>) -> Result<(), String> {
        config.entry("apiVersion").or_insert_with(|| json!("v1"));
        config.entry("kind").or_insert_with(|| json!("Config"));
        replace(config, "clusters", &self.name, "cluster", &self.cluster)?;
        replace(config, "users", &self.name, "user", &self.user)?;
        let context = json!({"cluster": self.name, "user": self.name});
        replace(config, "contexts", &self.name, "context", &context)?;
        let current = config.entry("current-context").or_insert_with(|| json!(""));
        if current.as_str().is_none_or(str::is_empty) {
            *current = json!(self.name);
        }
        Ok(())
    }

    /// Name of context, cluster and user.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

fn named<'a>(config: &'a Value, list: &str, name: &str, field: &str) -> Option<&'a Value> {
    let entries = config.get(list)?.as_array()?;
    entries.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))?.get(field)
}

fn replace(config: &mut Map<String, Value>, list: &str, name: &str, field: &str, value: &Value) -> Result<(), String> {
    let entries = config.entry(list).or_insert_with(|| json!([]));
    if entries.is_null() {
        *entries = json!([]);
    }
    let entries = entries.as_array_mut().ok_or_else(|| format!("{list} is not a list"))?;
    let fresh = json!({"name": name, field: value});
    match entries.iter_mut().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name)) {
        Some(entry) => *entry = fresh,
        None => entries.push(fresh),
    }
    Ok(())
}

/// Merges under a lock, so that two commands at once both get in; the file is replaced whole or not at all.
pub(crate) fn merge_file(path: &Path, entry: &Entry) -> Result<(), CliError> {
    let file_error = |operation, path: &Path| {
        let path = path.to_owned();
        move |source| CliError::File { operation, path, source }
    };
    // The target of a link is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(file_error("create folder", folder))?;
    let lock_path = beside(path, ".lock");
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock_path);
    let lock = lock.map_err(file_error("lock", &lock_path))?;
    lock.lock().map_err(file_error("lock", &lock_path))?;
    let result = merge_locked(path, entry);
    drop(lock);
    result
}

fn merge_locked(path: &Path, entry: &Entry) -> Result<(), CliError> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(CliError::File { operation: "read", path: path.to_owned(), source }),
    };
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().readonly()
    {
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        return Err(CliError::File { operation: "write", path: path.to_owned(), source });
    }
    let content = |problem: String| CliError::Content { path: path.to_owned(), problem };
    let mut config = parse(&old).map_err(content)?;
    entry.merge_into(&mut config).map_err(content)?;
    let text = crate::output::render(&Value::Object(config), crate::args::Format::Yaml)?;
    write_atomically(path, text.as_bytes()).map_err(|source| CliError::File {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str(text) {
        Ok(Value::Object(config)) => Ok(config),
        Ok(_) => Err("is no kubeconfig: not a map".to_owned()),
        Err(error) => Err(format!("is no YAML: {error}")),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = beside(path, &format!(".{}.new", std::process::id()));
    let result = (|| {
        let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if result.is_err() {
        // Best effort: the error that matters is the one above.
        let _ = fs::remove_file(&temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn own(server: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: kubernetes-admin@kubernetes\n\
             clusters:\n- name: kubernetes\n  cluster: {{server: '{server}'}}\n\
             users:\n- name: kubernetes-admin\n  user: {{token: t}}\n\
             contexts:\n- name: kubernetes-admin@kubernetes\n  context: {{cluster: kubernetes, user: kubernetes-admin}}\n"
        )
    }

    fn entry(namespace: &str, server: &str) -> Entry {
        Entry::from_kubeconfig(&own(server), namespace, "demo").expect("a whole kubeconfig")
    }

    #[test]
    fn equal_names_in_two_namespaces_stay_apart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("new/config");
        for (namespace, server) in [("lab", "https://a"), ("lab2", "https://b"), ("lab", "https://c")] {
            merge_file(&path, &entry(namespace, server)).expect("a writable file");
        }
        let config: Value = serde_saphyr::from_str(&fs::read_to_string(&path).expect("written")).expect("YAML");
        let servers: Vec<_> = ["lab-demo", "lab2-demo"]
            .iter()
            .map(|name| named(&config, "clusters", name, "cluster").and_then(|cluster| cluster["server"].as_str()))
            .collect();
        assert_eq!(servers, [Some("https://c"), Some("https://b")]);
        assert_eq!(config["contexts"].as_array().map(Vec::len), Some(2));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn other_entries_and_the_current_context_stay() {
        let mut config = parse(
            "current-context: work\nx-mine: 1\ncontexts: [{name: work, context: {cluster: w, user: w}}]\nusers: null\n",
        )
        .expect("a map");
        entry("lab", "https://a").merge_into(&mut config).expect("lists");
        assert_eq!((config["current-context"].as_str(), &config["x-mine"]), (Some("work"), &json!(1)));
        assert_eq!(config["contexts"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_stays_byte_for_byte() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config");
        for text in ["a: [", "- list", "contexts: 7"] {
            fs::write(&path, text).expect("a writable file");
            assert!(merge_file(&path, &entry("lab", "https://a")).is_err(), "{text}");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        fs::write(&path, "").expect("a writable file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("our own file");
        assert!(merge_file(&path, &entry("lab", "https://a")).is_err());
        assert_eq!(fs::read_to_string(&path).expect("there"), "");
    }
}
