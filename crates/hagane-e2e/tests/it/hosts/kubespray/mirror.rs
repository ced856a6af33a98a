//! What kubespray would fetch from the world, served in the lab: made from the payload, from the packages of the hosts' own image,
//! and from two Go programs that neither has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::{Lab, ProcessId};
use serde_json::{Map, Value, json};

/// Port of the mirror, on every address of the lab.
const PORT: u16 = 8090;
const SERVE: &str = include_str!("serve.py");
/// Where the release of each file would be.
const RELEASES: &str = "releases/download";
/// Packages that kubespray wants on a Debian host of this kind.
const PACKAGES: [&str; 26] = [
    "apparmor",
    "apt-transport-https",
    "bash-completion",
    "conntrack",
    "curl",
    "e2fsprogs",
    "ebtables",
    "gnupg",
    "iproute2",
    "ipset",
    "iptables",
    "ipvsadm",
    "libseccomp2",
    "mergerfs",
    "nftables",
    "openssl",
    "python3-apt",
    "rsync",
    "socat",
    "software-properties-common",
    "tar",
    "unzip",
    "xfsprogs",
    "iputils-ping",
    "procps",
    "kmod",
];
/// In place of a program that is asked for and never used here: images are pulled with crictl.
const NO_NERDCTL: &str =
    "#!/bin/sh\n[ \"$1\" = completion ] && exit\necho 'nerdctl is not in this mirror' >&2\nexit 1\n";
/// Version of crictl that is built.
const CRICTL: &str = "1.34.0";

/// The mirror.
pub struct Mirror {
    /// What kubespray is told of it.
    pub variables: Map<String, Value>,
    /// Its Debian repository as a line of sources.list.
    pub source: String,
}

struct Maker<'a> {
    lab: &'a Lab,
    host: &'a str,
    directory: PathBuf,
    payload: &'a Path,
    items: Vec<Value>,
    variables: Map<String, Value>,
}

/// Makes it and starts to serve it; it goes with the lab.
pub fn make(lab: &Lab, host: &str, payload: &Path) -> Result<Mirror> {
    let directory = lab.directory().join("mirror");
    let manifest = fs::read_to_string(payload.join("payload.yaml")).context("read the payload's manifest")?;
    let manifest: Value = serde_saphyr::from_str(&manifest).context("the payload's manifest is YAML")?;
    let items = manifest["items"].as_array().cloned().context("the payload lists items")?;
    let variables = Map::new();
    let mut maker = Maker { lab, host, directory, payload, items, variables };
    let version = manifest["kubernetesVersion"].as_str().context("the payload has a version")?.to_owned();
    maker.kubernetes(&version)?;
    maker.images()?;
    maker.etcd()?;
    maker.container_runtime()?;
    maker.packages()?;
    maker.serve()
}

impl Maker<'_> {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.variables.insert(name.to_owned(), value.into());
    }

    /// A file's place in the mirror, its directories made.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let path = self.directory.join(path);
        let parent = path.parent().context("a directory")?;
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        Ok(path)
    }

    /// Tells kubespray a version and the digest of the file that the mirror has for it.
    fn pin(&mut self, sums: &str, version: &str, file: &Path) -> Result<()> {
        let digest = format!("sha256:{}", sha256(file)?);
        self.set(sums, json!({"amd64": {version: digest}}));
        Ok(())
    }

    fn kubernetes(&mut self, version: &str) -> Result<()> {
        for name in ["kubeadm", "kubelet", "kubectl"] {
            let place = self.place(&format!("release/v{version}/bin/linux/amd64/{name}"))?;
            symlink(self.payload.join("binaries").join(name), &place).context("link a program")?;
            self.pin(&format!("{name}_checksums"), version, &place)?;
        }
        self.set("kube_version", version);
        Ok(())
    }

    /// Every image of the payload below `v2`, by tag and by digest.
    fn images(&mut self) -> Result<()> {
        for item in self.items.clone().iter().filter(|item| item["kind"] == "image") {
            let (file, tag) = (item["file"].as_str().context("a file")?, item["tag"].as_str().context("a tag")?);
            let unpacked = self.unpacked(file)?;
            let (_, name) = tag.split_once('/').context("a registry and a name")?;
            let (repository, tag) = name.rsplit_once(':').context("a name and a tag")?;
            let digest = manifest_digest(&unpacked)?;
            let manifest = unpacked.join("blobs").join(digest.replace(':', "/"));
            for reference in [tag, digest.as_str()] {
                let place = self.place(&format!("v2/{repository}/manifests/{reference}"))?;
                fs::copy(&manifest, place).context("copy a manifest")?;
            }
            for blob in fs::read_dir(unpacked.join("blobs/sha256")).context("list an image's blobs")?.flatten() {
                let name = blob.file_name().to_string_lossy().into_owned();
                let place = self.place(&format!("v2/{repository}/blobs/sha256:{name}"))?;
                symlink(blob.path(), place).context("link a blob")?;
            }
            match repository {
                "pause" => self.set("pod_infra_version", tag),
                "coredns/coredns" => self.set("coredns_version", tag.trim_start_matches('v')),
                _ => {}
            }
        }
        Ok(())
    }

    /// An image's archive, unpacked.
    fn unpacked(&self, file: &str) -> Result<PathBuf> {
        let directory = self.place(&format!(".unpacked/{file}/x"))?.with_file_name("");
        run(Command::new("tar").arg("-xf").arg(self.payload.join(file)).arg("-C").arg(&directory))?;
        Ok(directory)
    }

    /// etcd as its releases have it, from the payload's image.
    fn etcd(&mut self) -> Result<()> {
        let item = self.items.iter().find(|item| item["kind"] == "image" && item["name"] == "etcd");
        let item = item.context("the payload has an image of etcd")?;
        let version = item["version"].as_str().context("a version")?.to_owned();
        let unpacked = self.directory.join(".unpacked").join(item["file"].as_str().unwrap_or_default());
        let manifest = unpacked.join("blobs").join(manifest_digest(&unpacked)?.replace(':', "/"));
        let manifest: Value = serde_json::from_slice(&fs::read(manifest)?).context("a manifest")?;
        let name = format!("etcd-v{version}-linux-amd64");
        let programs = self.place(&format!(".etcd/{name}/etcdutl"))?;
        for layer in manifest["layers"].as_array().into_iter().flatten() {
            let blob = unpacked.join("blobs").join(layer["digest"].as_str().unwrap_or_default().replace(':', "/"));
            let words = ["--strip-components=3", "--wildcards", "*usr/local/bin/*"];
            run(Command::new("tar").arg("-xf").arg(blob).arg("-C").arg(programs.with_file_name("")).args(words))?;
        }
        fs::copy(etcdutl(&version)?, &programs).context("copy etcdutl")?;
        let archive = self.place(&format!("etcd-io/etcd/{RELEASES}/v{version}/{name}.tar.gz"))?;
        pack(&archive, &self.directory.join(".etcd"), &[&name])?;
        self.set("etcd_version", version.as_str());
        self.pin("etcd_binary_checksums", &version, &archive)
    }

    /// containerd, runc and the network plugins of the hosts' own packages; crictl.
    fn container_runtime(&mut self) -> Result<()> {
        let containerd = self.version_on_host("containerd")?;
        let releases = format!("containerd/containerd/{RELEASES}/v{containerd}");
        let programs =
            ["bin/containerd", "bin/containerd-shim", "bin/containerd-shim-runc-v1", "bin/containerd-shim-runc-v2"];
        let words: Vec<&str> = ["tar", "-C", "/usr", "-cz", "bin/ctr"].into_iter().chain(programs).collect();
        let archive =
            self.taken_from_host(&format!("{releases}/containerd-{containerd}-linux-amd64.tar.gz"), &words)?;
        self.set("containerd_version", containerd.as_str());
        self.pin("containerd_archive_checksums", &containerd, &archive)?;

        let runc = self.version_on_host("runc")?;
        let program = self.taken_from_host(
            &format!("opencontainers/runc/{RELEASES}/v{runc}/runc.amd64"),
            &["cat", "/usr/sbin/runc"],
        )?;
        self.set("runc_version", runc.as_str());
        self.pin("runc_checksums", &runc, &program)?;

        let plugins = self.version_on_host("containernetworking-plugins")?;
        let path = format!("containernetworking/plugins/{RELEASES}/v{plugins}/cni-plugins-linux-amd64-v{plugins}.tgz");
        let archive = self.taken_from_host(&path, &["tar", "-C", "/usr/lib/cni", "-cz", "."])?;
        self.set("cni_version", plugins.as_str());
        self.pin("cni_binary_checksums", &plugins, &archive)?;

        let path = format!("kubernetes-sigs/cri-tools/{RELEASES}/v{CRICTL}/crictl-v{CRICTL}-linux-amd64.tar.gz");
        let archive = self.place(&path)?;
        pack(&archive, &crictl()?, &["crictl"])?;
        self.set("crictl_version", CRICTL);
        self.pin("crictl_checksums", CRICTL, &archive)?;

        let script = self.place(".nerdctl/nerdctl")?;
        fs::write(&script, NO_NERDCTL).context("write a script")?;
        let archive = self.place(&format!("containerd/nerdctl/{RELEASES}/v0.0.1/nerdctl-0.0.1-linux-amd64.tar.gz"))?;
        pack(&archive, &self.directory.join(".nerdctl"), &["nerdctl"])?;
        self.set("nerdctl_version", "0.0.1");
        self.set("image_command_tool", "crictl");
        self.pin("nerdctl_archive_checksums", "0.0.1", &archive)
    }

    /// A Debian repository with what the hosts lack of [`PACKAGES`].
    fn packages(&self) -> Result<()> {
        let status = self.taken_from_host(".apt/status", &["cat", "/var/lib/dpkg/status"])?;
        let debs = self.place("debian/partial/x")?;
        let debs = debs.parent().and_then(Path::parent).context("a directory")?.to_owned();
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        let mut apt = Command::new("apt-get");
        apt.args(["-o", &option("Dir::State::status", &status), "-o", &option("Dir::Cache::archives", &debs)]);
        apt.args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root", "--no-install-recommends", "--yes"]);
        run(apt.args(["--download-only", "install"]).args(PACKAGES)).context("fetch packages for the mirror")?;
        let mut index = String::new();
        for deb in fs::read_dir(&debs).context("list packages")?.flatten() {
            let name = deb.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".deb") {
                continue;
            }
            // A colon of an epoch is escaped in the name, and a percent sign would be taken for an escape in the address.
            let plain = name.replace('%', "-");
            fs::rename(deb.path(), debs.join(&plain)).context("name a package")?;
            let fields = run(Command::new("dpkg-deb").arg("--field").arg(debs.join(&plain)))?;
            let size = fs::metadata(debs.join(&plain)).context("a package's size")?.len();
            let digest = sha256(&debs.join(&plain))?;
            index.push_str(&format!("{}\nFilename: ./{plain}\nSize: {size}\nSHA256: {digest}\n\n", fields.trim_end()));
        }
        fs::write(debs.join("Packages"), &index).context("write the index")?;
        let release = format!("SHA256:\n {} {} Packages\n", sha256(&debs.join("Packages"))?, index.len());
        fs::write(debs.join("Release"), release).context("write the repository's release")
    }

    fn serve(mut self) -> Result<Mirror> {
        let script = self.lab.directory().join("mirror.py");
        fs::write(&script, SERVE).context("write the server")?;
        let log = fs::File::create(self.lab.directory().join("mirror.log")).context("make its log")?;
        let words = [
            "python3".into(),
            script.into_os_string(),
            self.directory.clone().into_os_string(),
            PORT.to_string().into(),
        ];
        let child = self.lab.spawn(words, log)?;
        self.lab.adopt(ProcessId::of(child.id()).context("the mirror's server runs")?)?;
        let address = format!("http://{}:{PORT}", self.lab.description().host_gateway);
        self.set("github_url", address.as_str());
        self.set("dl_k8s_io_url", address.as_str());
        let registry = json!({"host": address, "capabilities": ["pull", "resolve"], "skip_verify": true});
        self.set("containerd_registries_mirrors", json!([{"prefix": "registry.k8s.io", "mirrors": [registry]}]));
        Ok(Mirror { source: format!("deb [trusted=yes] {address}/debian ./"), variables: self.variables })
    }

    /// What a program on the host writes, as a file of the mirror.
    fn taken_from_host(&self, path: &str, words: &[&str]) -> Result<PathBuf> {
        let place = self.place(path)?;
        let config = self.lab.description().ssh_config.display().to_string();
        let argv = ["ssh", "-F", &config, self.host].into_iter().chain(words.iter().copied());
        let output = self.lab.exec(argv)?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        fs::write(&place, output.stdout).with_context(|| format!("write {}", place.display()))?;
        Ok(place)
    }

    /// A package's version as its makers count, without what Debian adds.
    fn version_on_host(&self, package: &str) -> Result<String> {
        let file =
            self.taken_from_host(".versions", &["dpkg-query", "--show", "--showformat=\\${Version}", package])?;
        let version = fs::read_to_string(file).context("read a version")?;
        let end = version.find(|character: char| !character.is_ascii_digit() && character != '.');
        Ok(version.get(..end.unwrap_or(version.len())).unwrap_or_default().to_owned())
    }
}

fn manifest_digest(unpacked: &Path) -> Result<String> {
    let index = fs::read(unpacked.join("index.json")).context("read an image's index")?;
    let index: Value = serde_json::from_slice(&index).context("an index is JSON")?;
    index.pointer("/manifests/0/digest").and_then(Value::as_str).map(str::to_owned).context("an image has a manifest")
}

/// Packs entries of a directory.
fn pack(archive: &Path, directory: &Path, entries: &[&str]) -> Result<()> {
    let command = &mut Command::new("tar");
    run(command.args(["--use-compress-program=gzip -1", "-cf"]).arg(archive).arg("-C").arg(directory).args(entries))
        .map(drop)
}

fn sha256(file: &Path) -> Result<String> {
    let line = run(Command::new("sha256sum").arg(file))?;
    line.split_whitespace().next().map(str::to_owned).context("sha256sum prints a digest")
}

/// Where programs are kept that are built for this test alone.
fn cache(name: &str) -> Result<PathBuf> {
    let cache = std::env::var_os("HAGANE_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/hagane"));
    let directory = cache.or_else(home).context("HOME is set")?.join("kubespray-mirror").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    Ok(directory)
}

/// The directory with crictl.
fn crictl() -> Result<PathBuf> {
    let directory = cache(&format!("crictl-{CRICTL}"))?;
    if !directory.join("crictl").exists() {
        let module = format!("sigs.k8s.io/cri-tools/cmd/crictl@v{CRICTL}");
        run(Command::new("go").args(["install", &module]).env("GOBIN", &directory).env("CGO_ENABLED", "0"))?;
    }
    Ok(directory)
}

/// etcdutl, which only counts on a host as being there.
fn etcdutl(version: &str) -> Result<PathBuf> {
    let directory = cache(&format!("etcdutl-{version}"))?;
    let program = directory.join("etcdutl");
    if program.exists() {
        return Ok(program);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../payload/go/etcd");
    let module = tempfile::tempdir().context("a directory")?;
    for name in ["go.mod", "go.sum"] {
        fs::copy(sources.join(name), module.path().join(name)).context("copy the module's pins")?;
    }
    let package = "go.etcd.io/etcd/etcdutl/v3";
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(module.path()).env("CGO_ENABLED", "0");
        go
    };
    run(go().args(["get", &format!("{package}@v{version}")]))?;
    run(go().arg("build").arg("-o").arg(&program).arg(package))?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
