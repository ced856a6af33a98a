//! A server of good and bad images inside the lab.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result};
use hagane_testkit::lab::Image;
use hagane_testkit::road::wait_for;

use super::site::Site;

const SCRIPT: &str = include_str!("../../fixtures/image_server.py");
const PORT: u16 = 8090;

/// The running server; it ends with this value.
pub struct ImageServer {
    child: Child,
    directory: PathBuf,
    base: String,
    /// SHA-256 of the good image.
    pub good_sha256: String,
}

impl ImageServer {
    pub fn start(site: &Site<'_>) -> Result<Self> {
        let directory = site.lab.directory().join("test-images");
        fs::create_dir(&directory).context("make a directory for images")?;
        let text = |name: &str| directory.join(name).display().to_string();
        let script = site.file("image_server.py", SCRIPT)?;
        let create =
            |words: &[&str]| site.run(["qemu-img", "create", "-q", "-f", "qcow2"].iter().chain(words).copied());
        create(&[&text("good"), "64M"])?;
        create(&[&text("ten"), "10G"])?;
        create(&["-u", "-b", "/etc/passwd", "-F", "raw", &text("over-passwd"), "1M"])?;
        let mut boot_sector = vec![0; 1_000_001];
        boot_sector[510..512].copy_from_slice(b"\x55\xaa");
        fs::write(directory.join("odd"), &boot_sector).context("write a raw image")?;
        let mut other = fs::read(directory.join("good")).context("read the good image")?;
        other.extend([0; 512]);
        fs::write(directory.join("other-bytes"), other).context("write another image")?;
        fs::copy(site.image_file(Image::Tiny)?, directory.join("tiny")).context("offer the tiny image")?;
        let sum = site.run(["sha256sum", &text("good")])?;
        let good_sha256 = sum.split_whitespace().next().context("sha256sum prints a digest")?.to_owned();

        let address = site.lab.description().machine_gateway.to_string();
        let log = File::create(directory.join("log")).context("make a log")?;
        let child =
            site.lab.spawn(["python3", &script, &address, &PORT.to_string(), &directory.display().to_string()], log)?;
        let server = Self { child, directory, base: format!("http://{address}:{PORT}"), good_sha256 };
        wait_for("the image server answers", Duration::from_secs(20), || {
            let asked = site.lab.exec(["curl", "--silent", "--fail", "--output", "/dev/null", &server.url("good")])?;
            Ok(if asked.status.success() { Ok(()) } else { Err(asked.status.to_string()) })
        })?;
        Ok(server)
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// Offers one more file.
    pub fn offer(&self, name: &str, bytes: &[u8]) -> Result<()> {
        fs::write(self.directory.join(name), bytes).with_context(|| format!("offer {name}"))
    }

    /// From now on every path gives the good image.
    pub fn repair(&self) -> Result<()> {
        fs::write(self.directory.join("repaired"), "").context("repair the server")
    }
}

impl Drop for ImageServer {
    fn drop(&mut self) {
        // It may have ended by itself; the lab's end would end it too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
