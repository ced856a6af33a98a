use super::image::{Entry, names, write};
use super::recipe::{Recipe, TEXT};
use super::*;

fn payload_with(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(MANIFEST), text).expect("a list");
    directory
}

fn list(file: &str, digest: &str) -> String {
    format!(
        "kubernetesVersion: 1.2.3\nitems:\n- {{name: kubelet, version: 1.2.3, arch: amd64, kind: binary, file: {file}, \
         sha256: {digest}, source: test, roles: [worker]}}\n"
    )
}

#[test]
fn verifies_the_files_it_lists() {
    let digest = hexadecimal(&Sha256::digest(b"content"));
    let directory = payload_with(&list("kubelet", &digest));
    std::fs::write(directory.path().join("kubelet"), "content").expect("a file");
    let mut seen = Vec::new();
    verify(directory.path(), &mut |item| seen.push(item.name.clone())).expect("all is as listed");
    assert_eq!(seen, ["kubelet"]);
    std::fs::write(directory.path().join("kubelet"), "changed").expect("a file");
    assert!(matches!(verify(directory.path(), &mut |_| {}), Err(PayloadError::Digest { .. })));
    std::fs::remove_file(directory.path().join("kubelet")).expect("removed");
    assert!(matches!(verify(directory.path(), &mut |_| {}), Err(PayloadError::File { .. })));
}

#[test]
fn refuses_lists_that_point_elsewhere_or_say_too_little() {
    let digest = "0".repeat(64);
    for text in [
        list("../kubelet", &digest),
        list("/kubelet", &digest),
        list("kubelet", "abc"),
        list("kubelet", &digest).replace("kind: binary", "kind: image"),
        "items: [".to_owned(),
        "kubernetesVersion: 1\nitems: []\nother: 1\n".to_owned(),
    ] {
        let directory = payload_with(&text);
        assert!(matches!(load(directory.path()), Err(PayloadError::Malformed { .. })), "{text}");
    }
    let empty = tempfile::tempdir().expect("a directory");
    assert!(matches!(load(empty.path()), Err(PayloadError::File { .. })));
}

#[test]
fn an_image_carries_its_name_and_is_the_same_every_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    std::fs::write(&program, "#!").expect("a file");
    let entries = [
        Entry::File { path: "/usr/bin/program".to_owned(), source: program },
        Entry::Link { path: "/lib/x.so".to_owned(), target: PathBuf::from("x.so.1") },
    ];
    let write_to = |name: &str| {
        let path = directory.path().join(name);
        write(&path, "registry.example/x:1", "amd64", &[], &entries).expect("written");
        path
    };
    let (one, two) = (write_to("one.tar"), write_to("two.tar"));
    assert_eq!(names(&one).expect("an archive"), ["registry.example/x:1"]);
    assert_eq!(std::fs::read(one).expect("a file"), std::fs::read(two).expect("a file"));
}

#[test]
fn the_recipe_is_complete_in_itself() {
    let recipe: Recipe = serde_saphyr::from_str(TEXT).expect("the recipe parses");
    let built = |name: &str| recipe.programs.iter().any(|program| program.name == name);
    assert!(recipe.binaries.iter().all(|binary| built(&binary.program)));
    assert!(recipe.images.iter().flat_map(|image| image.programs.keys()).all(|name| built(name)));
    let version = format!("v{}", recipe.kubernetes_version);
    let tagged = |name: &str| recipe.images.iter().any(|image| image.tag.ends_with(&format!("{name}:{version}")));
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"] {
        assert!(tagged(name), "{name}");
    }
    assert!(recipe.modules.iter().all(|module| recipe.programs.iter().any(|program| program.module == module.name)));
}
