//! What a kubeconfig may hold before anybody uses it.
//!
//! It was written on a host of somebody's choosing. A kubeconfig can name programs to run and files to read, and the next
//! one to load it would be this process, or a person's kubectl: only credentials that stand in the text itself are taken.

use serde_json::Value;

/// Fields of a user that hold credentials themselves.
const USER_FIELDS: [&str; 5] = ["client-certificate-data", "client-key-data", "token", "username", "password"];
/// Fields of a cluster that lead to the cluster and nowhere else.
const CLUSTER_FIELDS: [&str; 4] = ["server", "certificate-authority-data", "tls-server-name", "disable-compression"];

/// Says why a kubeconfig is not to be used, or nothing. No value of it is repeated.
pub(crate) fn problem(kubeconfig: &[u8]) -> Option<String> {
    let parsed: Value = match serde_saphyr::from_slice(kubeconfig) {
        Ok(parsed) => parsed,
        Err(_) => return Some("the kubeconfig that the run left is no YAML".to_owned()),
    };
    if parsed["kind"] != "Config" {
        return Some("the kubeconfig that the run left is not of kind Config".to_owned());
    }
    let allowed: [(&str, &str, &[&str]); 2] =
        [("users", "user", &USER_FIELDS), ("clusters", "cluster", &CLUSTER_FIELDS)];
    for (list, part, fields) in allowed {
        let entries = parsed[list].as_array().map(Vec::as_slice).unwrap_or_default();
        if entries.is_empty() {
            return Some(format!("the kubeconfig that the run left has no {list}"));
        }
        let held = entries.iter().filter_map(|entry| entry[part].as_object()).flatten();
        let strange = held.map(|(field, _)| field).find(|field| !fields.contains(&field.as_str()));
        if let Some(field) = strange {
            return Some(format!(
                "the kubeconfig that the run left has {list} with {field:?}: only {fields:?} are taken"
            ));
        }
    }
    let servers = parsed["clusters"].as_array().into_iter().flatten().map(|entry| &entry["cluster"]["server"]);
    let plain = servers.filter_map(Value::as_str).any(|server| !server.starts_with("https://"));
    plain.then(|| "the kubeconfig that the run left leads to a server without https".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hagane_testkit::fake::FakeInstaller;

    #[test]
    fn takes_what_kubeadm_writes() {
        assert_eq!(problem(&FakeInstaller::kubeconfig_of("r1")), None);
    }

    #[test]
    fn refuses_programs_files_and_detours() {
        let good = String::from_utf8(FakeInstaller::kubeconfig_of("r1")).expect("text");
        for (from, to, told) in [
            ("client-key-data: a2V5", "exec: {command: sh, args: [-c, \"touch X\"]}", "\"exec\""),
            ("client-key-data: a2V5", "client-key: /root/.ssh/id_ed25519", "\"client-key\""),
            ("client-key-data: a2V5", "tokenFile: /etc/shadow", "\"tokenFile\""),
            ("client-key-data: a2V5", "auth-provider: {name: x}", "\"auth-provider\""),
            ("certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true", "\"insecure-skip-tls-verify\""),
            ("certificate-authority-data: Y2E=", "proxy-url: http://192.0.2.9", "\"proxy-url\""),
            ("https://192.0.2.1", "http://192.0.2.1", "without https"),
            ("kind: Config", "kind: Secret", "kind Config"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let found = problem(bad.as_bytes()).unwrap_or_default();
            assert!(found.contains(told), "{to}: {found}");
        }
        for bad in ["", "\u{0}", "kind: Config", "- a", "{{ lookup('pipe', 'touch X') }}"] {
            assert!(problem(bad.as_bytes()).is_some(), "{bad:?}");
        }
    }
}
