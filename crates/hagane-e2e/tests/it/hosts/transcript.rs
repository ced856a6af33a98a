//! Every version of some objects, in the order in which they were written, as `kubectl get --watch` shows them.

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;

use anyhow::{Context, Result};
use serde_json::Value;

use super::site::Site;

/// A watch that runs beside a test.
pub struct Transcript {
    child: Child,
    path: PathBuf,
}

/// One version of an object.
pub struct Version {
    /// Its place among all writes to the API.
    pub revision: u64,
    pub object: Value,
}

impl Transcript {
    /// Starts to watch a kind.
    pub fn start(site: &Site<'_>, resource: &str) -> Result<Self> {
        let path = site.lab.directory().join(format!("watch-{resource}.json"));
        let file = File::create(&path).context("make a transcript")?;
        let argv = [
            site.tools.kubectl.display().to_string(),
            format!("--kubeconfig={}", site.server.kubeconfig().display()),
            format!("--cache-dir={}", site.lab.directory().join("watch-cache").display()),
            "get".to_owned(),
            resource.to_owned(),
            "--watch".to_owned(),
            "--output=json".to_owned(),
        ];
        Ok(Self { child: site.lab.spawn(argv, file)?, path })
    }

    /// What was seen until now, oldest first.
    pub fn versions(&self) -> Result<Vec<Version>> {
        let text = std::fs::read_to_string(&self.path).context("read a transcript")?;
        let mut versions = Vec::new();
        // The last one may be half written.
        for object in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
            let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            let revision = revision.and_then(|revision| revision.parse().ok()).context("a version has a revision")?;
            versions.push(Version { revision, object });
        }
        Ok(versions)
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        // It ends by itself when hagane does.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
