use super::*;
use crate::args::{ServiceMode, ServiceUnitArgs};

fn install_args(root: &Path) -> ServiceInstallArgs {
    let unit = ServiceUnitArgs { mode: ServiceMode::Up, program: Some("/usr/bin/hagane".into()) };
    ServiceInstallArgs { unit, root: root.to_owned(), now: false }
}

#[tokio::test]
async fn keeps_an_operators_configuration_and_data() {
    let root = tempfile::tempdir().expect("a directory");
    let paths = Paths::below(root.path());
    install(&install_args(root.path())).await.expect("installed");
    std::fs::write(&paths.config, "listen: 127.0.0.1:7000\n").expect("written");
    std::fs::create_dir_all(&paths.data).expect("made");

    install(&install_args(root.path())).await.expect("installed again");
    uninstall(&ServiceUninstallArgs { root: root.path().to_owned(), purge: false }).await.expect("uninstalled");

    assert_eq!(std::fs::read_to_string(&paths.config).expect("kept"), "listen: 127.0.0.1:7000\n");
    assert!(paths.data.exists() && !paths.unit.exists() && !paths.sysusers.exists());

    uninstall(&ServiceUninstallArgs { root: root.path().to_owned(), purge: true }).await.expect("purged");
    assert!(!paths.data.exists() && !paths.config.exists());
}

#[tokio::test]
async fn leaves_a_unit_of_somebody_else_alone() {
    let root = tempfile::tempdir().expect("a directory");
    let paths = Paths::below(root.path());
    std::fs::create_dir_all(paths.unit.parent().expect("has one")).expect("made");
    std::fs::write(&paths.unit, "[Service]\nExecStart=/opt/other\n").expect("written");

    let install = install(&install_args(root.path())).await.expect_err("refused").to_string();
    let uninstall = uninstall(&ServiceUninstallArgs { root: root.path().to_owned(), purge: true }).await;

    assert!(install.contains("was not written by `hagane service install`"), "{install}");
    assert!(uninstall.is_err());
    assert_eq!(std::fs::read_to_string(&paths.unit).expect("kept"), "[Service]\nExecStart=/opt/other\n");
}

#[test]
fn refuses_a_program_that_a_unit_cannot_name() {
    for path in ["hagane", "/opt/my tools/hagane", "/opt/%i/hagane", "/opt/a\nExecStartPre=/bin/x"] {
        let problem = program(Some(Path::new(path))).expect_err(path).to_string();
        assert!(problem.starts_with("--program: "), "{problem}");
    }
}
