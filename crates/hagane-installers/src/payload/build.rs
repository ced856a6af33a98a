//! Building a payload from Go modules and a few Debian packages, into a cache.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::image::{self, Entry};
use super::recipe::{self, Module, Program, Recipe, Sources};
use super::{Item, Kind, MANIFEST, Manifest, PayloadError, digest_of, file_error, hexadecimal, load};

/// How to get Go.
const GO_HINT: &str = "Go builds the payload: install Go 1.26 or newer and put it on the PATH";
/// How to get Debian's tools.
const APT_HINT: &str = "kube-proxy's image takes nft from Debian packages: build on Debian, after apt-get update";

/// Where and how a payload is built.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The cache; see [`crate::python::default_cache`].
    pub cache: PathBuf,
    /// The Go command.
    pub go: PathBuf,
    /// Version of Kubernetes, without `v`: one of [`versions`].
    pub version: String,
}

impl BuildOptions {
    /// Builds the usual version into `cache` with the `go` on the PATH.
    #[must_use]
    pub fn new(cache: PathBuf) -> Self {
        Self { cache, go: PathBuf::from("go"), version: recipe::usual_version().to_owned() }
    }
}

/// How far a build has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: String,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
    /// What the step is at, such as a package being compiled.
    pub detail: Option<String>,
}

/// The versions of Kubernetes that can be built, the usual one first.
#[must_use]
pub fn versions() -> Vec<&'static str> {
    recipe::versions()
}

/// Where the payload of the usual version is, or will be, below `cache`.
#[must_use]
pub fn directory(cache: &Path) -> PathBuf {
    directory_of(cache, recipe::usual_version()).unwrap_or_default()
}

/// Where the payload of a version is, or will be, below `cache`.
///
/// # Errors
/// [`PayloadError::Version`] where the version is not one of [`versions`].
pub fn directory_of(cache: &Path, version: &str) -> Result<PathBuf, PayloadError> {
    Ok(place(cache, version, &find_sources(version)?))
}

fn find_sources(version: &str) -> Result<Sources, PayloadError> {
    recipe::sources(version)
        .ok_or_else(|| PayloadError::Version { version: version.to_owned(), known: versions().join(", ") })
}

fn place(cache: &Path, version: &str, sources: &Sources) -> PathBuf {
    let mut digest = Sha256::new();
    for (path, text) in sources.files.iter().chain(&[("recipe.yaml", sources.recipe.as_str()), ("format", "1")]) {
        digest.update(format!("{path}\n{}\n", text.len()));
        digest.update(text);
    }
    let digest = hexadecimal(&digest.finalize());
    cache.join("payload").join(format!("{version}-{}", digest.get(..12).unwrap_or_default()))
}

/// Builds the payload where it is not there yet, and returns its directory. `progress` is told every step. Blocks for
/// minutes when nothing is compiled yet. What a payload of the usual version holds in the same way is taken from there.
///
/// # Errors
/// Any [`PayloadError`]; nothing half-built is left under the final name.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(&Progress)) -> Result<PathBuf, PayloadError> {
    let sources = find_sources(&options.version)?;
    let target = place(&options.cache, &options.version, &sources);
    if load(&target).is_ok() {
        return Ok(target);
    }
    let parent = options.cache.join("payload");
    fs::create_dir_all(&parent).map_err(file_error("create", &parent))?;
    let lock_path = parent.join("lock");
    let lock = fs::File::create(&lock_path).map_err(file_error("create", &lock_path))?;
    lock.lock().map_err(file_error("lock", &lock_path))?;
    if load(&target).is_ok() {
        return Ok(target);
    }
    let recipe: Recipe = serde_saphyr::from_str(&sources.recipe)
        .map_err(|error| PayloadError::Malformed { path: PathBuf::from("recipe.yaml"), problem: error.to_string() })?;
    let staging = staging_of(&target);
    for old in [&staging, &target] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(file_error("remove", old))?;
        }
    }
    let mut builder = Builder::new(options, &recipe, &staging, progress)?;
    builder.lay_sources(&sources)?;
    builder.reuse(&directory(&options.cache))?;
    builder.compile()?;
    builder.nft()?;
    let manifest = builder.assemble()?;
    for scratch in ["src", "bin", "nft"] {
        let path = staging.join(scratch);
        fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
    }
    write_manifest(&staging, &manifest)?;
    fs::rename(&staging, &target).map_err(file_error("name", &target))?;
    Ok(target)
}

/// Beside the final place. Not by changing the extension: what follows a version's last dot looks like one.
fn staging_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    target.with_file_name(name)
}

fn write_manifest(staging: &Path, manifest: &Manifest) -> Result<(), PayloadError> {
    let path = staging.join(MANIFEST);
    let malformed = |problem: String| PayloadError::Malformed { path: path.clone(), problem };
    let text = serde_saphyr::to_string(manifest).map_err(|error| malformed(error.to_string()))?;
    fs::write(&path, text).map_err(file_error("write", &path))
}

struct Builder<'a> {
    options: &'a BuildOptions,
    recipe: &'a Recipe,
    staging: &'a Path,
    architecture: String,
    progress: &'a mut dyn FnMut(&Progress),
    current: Progress,
    nft: Vec<Entry>,
    /// Images taken from another payload.
    reused: Vec<Item>,
}

impl<'a> Builder<'a> {
    fn new(
        options: &'a BuildOptions,
        recipe: &'a Recipe,
        staging: &'a Path,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Result<Self, PayloadError> {
        for name in ["src", "bin", "nft", "binaries", "images"] {
            let path = staging.join(name);
            fs::create_dir_all(&path).map_err(file_error("create", &path))?;
        }
        let architecture = run(Command::new(&options.go).args(["env", "GOARCH"]), GO_HINT, &mut |_| {})?;
        let total = recipe.programs.len() + 1 + recipe.images.len();
        let current = Progress { step: String::new(), done: 0, total, detail: None };
        let architecture = architecture.trim().to_owned();
        Ok(Self { options, recipe, staging, architecture, progress, current, nft: Vec::new(), reused: Vec::new() })
    }

    fn lay_sources(&self, sources: &Sources) -> Result<(), PayloadError> {
        for (path, text) in &sources.files {
            let path = self.staging.join("src").join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(file_error("create", parent))?;
            }
            fs::write(&path, text).map_err(file_error("write", &path))?;
        }
        Ok(())
    }

    /// Takes images that have nothing of the module `kubernetes` in them from the payload in `other`, where there is one.
    fn reuse(&mut self, other: &Path) -> Result<(), PayloadError> {
        let Ok(manifest) = load(other) else { return Ok(()) };
        let differs = |program: &Program| program.module == "kubernetes";
        for image in &self.recipe.images {
            let programs = self.recipe.programs.iter().filter(|program| image.programs.contains_key(&program.name));
            let same = |item: &&Item| item.kind == Kind::Image && item.name == image.name;
            let Some(item) = manifest.items.iter().find(same) else { continue };
            if image.nft || programs.into_iter().any(differs) || item.tag.as_ref() != Some(&image.tag) {
                continue;
            }
            let (from, to) = (other.join(&item.file), self.staging.join(&item.file));
            if digest_of(&from)? != item.sha256 {
                continue;
            }
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).map_err(file_error("copy", &from))?;
            self.reused.push(item.clone());
        }
        Ok(())
    }

    /// Whether a program is laid on hosts or in an image that is made here.
    fn is_needed(&self, program: &Program) -> bool {
        let made = |name: &str| !self.reused.iter().any(|item| item.name == name);
        self.recipe.binaries.iter().any(|binary| binary.program == program.name)
            || self.recipe.images.iter().any(|image| made(&image.name) && image.programs.contains_key(&program.name))
    }

    fn step(&mut self, step: String) {
        self.current.step = step;
        self.current.detail = None;
        (self.progress)(&self.current);
    }

    fn compile(&mut self) -> Result<(), PayloadError> {
        for program in &self.recipe.programs {
            if !self.is_needed(program) {
                self.current.done += 1;
                continue;
            }
            self.step(format!("compile {} {}", program.name, program.version));
            let module = self.recipe.modules.iter().find(|module| module.name == program.module);
            let mut command = self.go_build(program, module);
            let (current, progress) = (&mut self.current, &mut self.progress);
            run(&mut command, GO_HINT, &mut |line| {
                current.detail = Some(line.to_owned());
                progress(current);
            })?;
            self.current.done += 1;
        }
        Ok(())
    }

    fn go_build(&self, program: &Program, module: Option<&Module>) -> Command {
        let variables = module.map(|module| &module.variables);
        let variables = variables.into_iter().flatten().map(|(name, value)| format!(" -X {name}={value}"));
        let flags = variables.fold("-s -w".to_owned(), |flags, variable| flags + &variable);
        let mut command = Command::new(&self.options.go);
        command
            .args(["build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", &flags, "-o"])
            .arg(self.staging.join("bin").join(&program.name))
            .arg(&program.package)
            .current_dir(self.staging.join("src").join(&program.module))
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off");
        command
    }

    /// Fetches nft with its libraries and notes their places.
    fn nft(&mut self) -> Result<(), PayloadError> {
        self.step("fetch nft and its libraries from Debian packages".to_owned());
        let directory = self.staging.join("nft");
        let mut download = Command::new("apt-get");
        download.args(["--quiet", "download"]).args(&self.recipe.nft_packages).current_dir(&directory);
        // apt drops to a user of its own, which cannot write here, and warns about it.
        download.args(["-o", "APT::Sandbox::User=root"]);
        run(&mut download, APT_HINT, &mut |_| {})?;
        let root = directory.join("root");
        for package in files_in(&directory)? {
            if package.extension() == Some(OsStr::new("deb")) {
                run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root), APT_HINT, &mut |_| {})?;
            }
        }
        self.nft.push(Entry::File { path: "/usr/sbin/nft".to_owned(), source: root.join("usr/sbin/nft") });
        for base in ["lib", "usr/lib", "lib64"] {
            collect_libraries(&root, Path::new(base), &mut self.nft)?;
        }
        self.current.done += 1;
        Ok(())
    }

    fn assemble(&mut self) -> Result<Manifest, PayloadError> {
        let programs: BTreeMap<&str, &Program> =
            self.recipe.programs.iter().map(|program| (program.name.as_str(), program)).collect();
        let find = |name: &str| {
            programs.get(name).copied().ok_or_else(|| PayloadError::Malformed {
                path: PathBuf::from("recipe.yaml"),
                problem: format!("program {name} is not built"),
            })
        };
        let mut items = Vec::new();
        for binary in &self.recipe.binaries {
            let program = find(&binary.program)?;
            let file = Path::new("binaries").join(&program.name);
            let (from, to) = (self.staging.join("bin").join(&program.name), self.staging.join(&file));
            fs::copy(&from, &to).map_err(file_error("copy", &from))?;
            items.push(self.item(program, Kind::Binary, file, None, &binary.roles)?);
        }
        for image in &self.recipe.images {
            if let Some(item) = self.reused.iter().find(|item| item.name == image.name) {
                items.push(item.clone());
                self.current.done += 1;
                continue;
            }
            self.step(format!("write image {}", image.tag));
            let mut entries = Vec::new();
            for (program, path) in &image.programs {
                entries.push(Entry::File { path: path.clone(), source: self.staging.join("bin").join(program) });
            }
            if image.nft {
                entries.extend(self.nft.iter().cloned());
            }
            let file = Path::new("images").join(format!("{}.tar", image.name));
            let path = self.staging.join(&file);
            image::write(&path, &image.tag, &self.architecture, &image.entrypoint, &entries)
                .map_err(file_error("write", &path))?;
            let program = find(image.programs.keys().next().map_or("", String::as_str))?;
            let mut item = self.item(program, Kind::Image, file, Some(image.tag.clone()), &image.roles)?;
            item.name.clone_from(&image.name);
            items.push(item);
            self.current.done += 1;
        }
        self.step("done".to_owned());
        Ok(Manifest { kubernetes_version: self.recipe.kubernetes_version.clone(), items })
    }

    fn item(
        &self,
        program: &Program,
        kind: Kind,
        file: PathBuf,
        tag: Option<String>,
        roles: &[hagane_ports::installer::NodeRole],
    ) -> Result<Item, PayloadError> {
        Ok(Item {
            name: program.name.clone(),
            version: program.version.clone(),
            arch: self.architecture.clone(),
            kind,
            sha256: digest_of(&self.staging.join(&file))?,
            file,
            source: program.source.clone(),
            tag,
            roles: roles.to_vec(),
        })
    }
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, PayloadError> {
    let entries = fs::read_dir(directory).map_err(file_error("list", directory))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Shared libraries directly below `base` and its multiarch directory; not the plugin directories further down.
fn collect_libraries(root: &Path, base: &Path, entries: &mut Vec<Entry>) -> Result<(), PayloadError> {
    let here = root.join(base);
    if !here.is_dir() {
        return Ok(());
    }
    for path in files_in(&here)? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let inside = format!("/{}/{name}", base.display());
        let metadata = fs::symlink_metadata(&path).map_err(file_error("look at", &path))?;
        if metadata.is_dir() && name.ends_with("-linux-gnu") {
            collect_libraries(root, &base.join(&name), entries)?;
        } else if metadata.is_symlink() && name.contains(".so") {
            let target = fs::read_link(&path).map_err(file_error("read", &path))?;
            entries.push(Entry::Link { path: inside, target });
        } else if metadata.is_file() && name.contains(".so") {
            entries.push(Entry::File { path: inside, source: path });
        }
    }
    Ok(())
}

/// Runs a program to its end; each line of its standard error goes to `line`. Gives its standard output.
fn run(command: &mut Command, hint: &'static str, line: &mut dyn FnMut(&str)) -> Result<String, PayloadError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| PayloadError::Program { program: program.clone(), hint, source };
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let output = child.stdout.take();
    // Both pipes have to be emptied at once, or a full one stops the program.
    let reader = std::thread::spawn(move || output.map(std::io::read_to_string));
    let mut last = Vec::new();
    if let Some(errors) = child.stderr.take() {
        for text in BufReader::new(errors).lines().map_while(Result::ok) {
            line(&text);
            last.push(text);
            if last.len() > 12 {
                last.remove(0);
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    let output = reader.join().ok().flatten().and_then(Result::ok).unwrap_or_default();
    if status.success() { Ok(output) } else { Err(PayloadError::Refused { program, message: last.join("; ") }) }
}
