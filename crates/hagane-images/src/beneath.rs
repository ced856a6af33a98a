//! Opening files that lie below one directory, whatever links and races say.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It lies elsewhere.
    Outside,
    /// It is a directory, device, pipe or socket.
    NotAFile,
    /// The operating system said no.
    Io(io::Error),
}

/// Opens a regular file for reading. Links are followed as long as they lead below `directory`. Blocks on disk only.
pub(crate) fn open(directory: &Path, path: &Path) -> Result<File, Refusal> {
    let real_directory = directory.canonicalize().map_err(Refusal::Io)?;
    // By name first: what exists elsewhere is nobody's business.
    if !path.starts_with(directory) && !path.starts_with(&real_directory) {
        return Err(Refusal::Outside);
    }
    let real = path.canonicalize().map_err(Refusal::Io)?;
    let inside = real.strip_prefix(&real_directory).map_err(|_| Refusal::Outside)?;
    if inside.as_os_str().is_empty() {
        return Err(Refusal::NotAFile);
    }
    let anchor = File::open(&real_directory).map_err(Refusal::Io)?;
    // All links are resolved; one that appears now is a race and not followed. NONBLOCK: a pipe must not hang the open.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(&anchor, inside, flags, Mode::empty(), resolve);
    let file = File::from(opened.map_err(|error| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::XDEV => Refusal::Outside,
        // A socket cannot be opened.
        rustix::io::Errno::NXIO => Refusal::NotAFile,
        other => Refusal::Io(other.into()),
    })?);
    if file.metadata().map_err(Refusal::Io)?.is_file() { Ok(file) } else { Err(Refusal::NotAFile) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn follows_links_inside_and_refuses_links_out() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (images, secret) = (root.path().join("images"), root.path().join("secret"));
        std::fs::create_dir_all(images.join("sub")).expect("it is ours");
        std::fs::write(images.join("sub/a.img"), b"a").expect("it is ours");
        std::fs::write(&secret, b"s").expect("it is ours");
        let link = |target: &Path, name: &str| symlink(target, images.join(name)).expect("it is ours");
        link(Path::new("sub/a.img"), "relative");
        link(&images.join("sub/a.img"), "absolute");
        link(&secret, "out");
        link(Path::new("../secret"), "out-relative");
        link(Path::new("/proc/self/root/etc/passwd"), "magic");
        link(root.path(), "up");
        for name in ["sub/a.img", "relative", "absolute"] {
            open(&images, &images.join(name)).expect(name);
        }
        for name in ["out", "out-relative", "magic", "up/secret", "../secret"] {
            let refusal = open(&images, &images.join(name)).expect_err(name);
            assert!(matches!(refusal, Refusal::Outside), "{name}: {refusal:?}");
        }
        for path in [&secret, Path::new("/etc/passwd"), Path::new("/nonexistent/x"), &root.path().join("images-2/x")] {
            let refusal = open(&images, path).expect_err("outside");
            assert!(matches!(refusal, Refusal::Outside), "{path:?}: {refusal:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_regular_file_without_hanging() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let pipe = root.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is installed").success());
        std::fs::create_dir(root.path().join("directory")).expect("it is ours");
        let socket = root.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("it is ours");
        for path in [pipe, root.path().join("directory"), socket, root.path().to_owned()] {
            let refusal = open(root.path(), &path).expect_err("no file");
            assert!(matches!(refusal, Refusal::NotAFile), "{path:?}: {refusal:?}");
        }
        assert!(matches!(open(root.path(), &root.path().join("absent")), Err(Refusal::Io(_))));
    }
}
