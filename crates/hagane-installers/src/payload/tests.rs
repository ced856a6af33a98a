use super::image::{Entry, names, write};
use super::recipe::{Recipe, sources};
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
fn the_recipe_of_every_version_is_complete_in_itself() {
    for version in versions() {
        let text = sources(version).expect("a version that can be built").recipe;
        let recipe: Recipe = serde_saphyr::from_str(&text).expect("the recipe parses");
        let built = |name: &str| recipe.programs.iter().any(|program| program.name == name);
        assert!(recipe.binaries.iter().all(|binary| built(&binary.program)));
        assert!(recipe.images.iter().flat_map(|image| image.programs.keys()).all(|name| built(name)));
        assert_eq!(recipe.kubernetes_version, version);
        let tagged = |name: &str| recipe.images.iter().any(|image| image.tag.ends_with(&format!("{name}:v{version}")));
        for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"] {
            assert!(tagged(name), "{name}");
        }
        assert!(
            recipe.modules.iter().all(|module| recipe.programs.iter().any(|program| program.module == module.name))
        );
        let sources = sources(version).expect("a version that can be built");
        let pins = sources.files.iter().find(|(path, _)| *path == "kubernetes/go.mod").expect("a module");
        assert!(pins.1.contains(&format!("require k8s.io/kubernetes v{version}\n")), "{version}");
    }
}

#[test]
fn versions_have_places_of_their_own_and_unknown_ones_are_refused() {
    let cache = Path::new("/cache");
    let places: Vec<_> = versions().into_iter().map(|version| directory_of(cache, version).expect("a place")).collect();
    assert!(places.windows(2).all(|pair| pair.first() != pair.last()), "{places:?}");
    assert_eq!(places.first(), Some(&directory(cache)));
    let error = directory_of(cache, "1.2.3").expect_err("no such version").to_string();
    assert!(error.contains("1.2.3") && error.contains(versions().first().expect("one")), "{error}");
}

fn shelf_with(names: &[(&str, &str)]) -> tempfile::TempDir {
    let parent = tempfile::tempdir().expect("a directory");
    for (name, version) in names {
        let directory = parent.path().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        let text = format!("kubernetesVersion: {version}\nitems: []\n");
        std::fs::write(directory.join(MANIFEST), text).expect("a list");
    }
    parent
}

#[test]
fn finds_payloads_in_the_directories_named_and_one_level_below_them() {
    let parent = shelf_with(&[("a", "1.36.1"), ("b", "1.36.10"), ("c", "1.36.3")]);
    std::fs::create_dir(parent.path().join("other")).expect("a directory");
    let shelf = Shelf::read(&[parent.path().to_owned()]).expect("payloads");
    assert_eq!(shelf.versions(), ["1.36.1", "1.36.3", "1.36.10"]);
    assert_eq!(shelf.newest().map(|stored| stored.manifest.kubernetes_version.as_str()), Some("1.36.10"));
    let one = Shelf::read(&[parent.path().join("c")]).expect("a payload");
    assert_eq!(one.versions(), ["1.36.3"]);
    assert!(one.find("1.36.1").is_none() && one.find("1.36.3").is_some());
}

#[test]
fn refuses_two_payloads_of_a_version_and_a_place_without_any() {
    let parent = shelf_with(&[("a", "1.36.1"), ("b", "1.36.1")]);
    let error = Shelf::read(&[parent.path().to_owned()]).map(drop).expect_err("two of a version").to_string();
    assert!(error.contains("1.36.1") && error.contains("/a") && error.contains("/b"), "{error}");
    // The same directory twice is one payload.
    let twice = [parent.path().join("a"), parent.path().join("a")];
    assert_eq!(Shelf::read(&twice).expect("a payload").versions(), ["1.36.1"]);
    let empty = tempfile::tempdir().expect("a directory");
    assert!(matches!(Shelf::read(&[empty.path().to_owned()]), Err(PayloadError::File { .. })));
}
