//! Writing a run directory: whole, then under its name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hagane_ports::installer::{InstallRequest, InstallVerb, InstallerError};

use super::resume::{Earlier, digest, stages};
use super::{EngineOptions, RunPlan, Step, directory_error};
use crate::inventory::{check_request, file_name, invalid, render_variables, render_with_groups};
use crate::progress::{CALLBACK_NAME, CALLBACK_PLUGIN};
use crate::run::files::{create_directory, sync_parent, write_new, write_record};
use crate::run::{Intent, RunKind, RunLayout, RunUser, history, now};

/// Longest directory in which ssh can make its control sockets: a socket's path may have 107 bytes, of which Ansible
/// and ssh add up to 30.
const SOCKET_DIRECTORY_BYTES_MAX: usize = 76;

/// Writes the run directory beside its place and moves it there in one step. A run of that id that is there already
/// wins.
pub(super) fn prepare(
    options: &EngineOptions,
    user: Option<&RunUser>,
    layout: &RunLayout,
    request: &InstallRequest,
    plan: &RunPlan,
    resume: Option<&Earlier>,
) -> Result<(), InstallerError> {
    check_request(request)?;
    check_place(&options.runs)?;
    let ansible_playbook = find_program(&options.ansible_playbook, std::env::var_os("PATH"))?;
    let options = &EngineOptions { ansible_playbook, ..options.clone() };
    let staging = RunLayout::at(options.runs.join(format!(".new-{}", uuid::Uuid::new_v4())));
    let failed = directory_error("prepare the run directory");
    let facts = options.runs.join("facts");
    make_root(&options.runs).map_err(&failed)?;
    if let Some(user) = user {
        check_reach(user, plan.must_read.iter().chain([&options.runs, &options.ansible_playbook]))?;
    }
    let result = write_all(options, user, &staging, layout, request, plan, &facts, resume);
    let moved = result.and_then(|()| match fs::rename(staging.directory(), layout.directory()) {
        Ok(()) => sync_parent(layout.directory()).map_err(&failed),
        Err(_) if layout.intent().exists() => Ok(()),
        Err(error) => Err(failed(error)),
    });
    // Gone already where it was moved.
    super::remove_if_there(staging.directory()).map_err(&failed)?;
    moved
}

/// The program by absolute path: a bare name is looked for where a shell would, at each run anew.
pub(super) fn find_program(program: &Path, path: Option<OsString>) -> Result<PathBuf, InstallerError> {
    let bare = program.components().count() == 1 && !program.is_absolute();
    let directories: Vec<_> = path.iter().flat_map(std::env::split_paths).filter(|_| bare).collect();
    let places = directories.iter().map(|directory| directory.join(program)).chain([program.to_owned()]);
    let found = places.into_iter().find(|place| place.is_absolute() && place.is_file());
    found.ok_or_else(|| InstallerError::Prerequisite {
        what: "ansible-playbook".to_owned(),
        detail: format!(
            "looked for {}{}; `hagane doctor` tells how to get it, --ansible-playbook names another",
            program.display(),
            if bare { " on PATH" } else { "" }
        ),
    })
}

/// Refuses a place whose name Ansible or ssh would take for something else: a template, a variable, a list, two words.
fn check_place(runs: &Path) -> Result<(), InstallerError> {
    let plain = |character: char| character.is_alphanumeric() || "/._-+@=".contains(character);
    let problem = match runs.to_str() {
        None => "is no text".to_owned(),
        Some(text) => match text.chars().find(|character| !plain(*character)) {
            Some(character) => format!("has a {character:?}"),
            None => return Ok(()),
        },
    };
    Err(InstallerError::Prerequisite {
        what: "a place for runs that Ansible can work in".to_owned(),
        detail: format!(
            "{} {problem}; choose a --data-dir of letters, digits and any of . _ - + @ =",
            runs.display().to_string().escape_debug()
        ),
    })
}

fn make_root(root: &Path) -> io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    make_passage(root)
}

#[allow(clippy::too_many_arguments)]
fn write_all(
    options: &EngineOptions,
    user: Option<&RunUser>,
    staging: &RunLayout,
    layout: &RunLayout,
    request: &InstallRequest,
    plan: &RunPlan,
    facts: &Path,
    earlier: Option<&Earlier>,
) -> Result<(), InstallerError> {
    let failed = directory_error("write the run directory");
    let facts = facts.join(file_name_of(&request.owner_uid)?);
    create_directory(staging.directory(), 0o711).map_err(&failed)?;
    create_directory(&staging.work(), 0o700).map_err(&failed)?;
    for name in ["ssh", "artifacts", "home", "tmp", "plugins", "plugins/callback"] {
        create_directory(&staging.in_work(name), 0o700).map_err(&failed)?;
    }
    let (sockets, remove_at_end) = socket_directory(&options.runs, layout, user).map_err(&failed)?;
    create_directory(&staging.in_work("cp"), 0o700).map_err(&failed)?;
    make_facts(&facts, user).map_err(&failed)?;

    let mut known_hosts = request.ssh.known_hosts.join("\n");
    known_hosts.push('\n');
    let key = format!("{}\n", request.ssh.private_key.trim_end());
    let hosts = render_with_groups(&request.inventory, &plan.groups);
    let inventory = file_name(request.inventory.format);
    let config = render_config(options, layout, request, plan, &facts, &sockets);
    let variables = render_variables(&request.variables)?;
    let own = render_own_variables(&plan.own_variables)?;
    let texts: [(PathBuf, &str, u32); 7] = [
        (staging.in_work("ssh/id"), &key, 0o600),
        (staging.in_work("ssh/known_hosts"), &known_hosts, 0o600),
        (staging.in_work(inventory), &hosts, 0o600),
        (staging.ansible_config(), &config, 0o600),
        (staging.variables(), &variables, 0o600),
        (staging.own_variables(), &own, 0o600),
        (staging.in_work("plugins/callback/hagane_progress.py"), CALLBACK_PLUGIN, 0o600),
    ];
    for (path, text, mode) in &texts {
        write_new(path, text.as_bytes(), *mode).map_err(&failed)?;
    }
    let further: Vec<_> = plan
        .steps
        .iter()
        .enumerate()
        .map(|(number, step)| Ok((step_file(number), render_own_variables(&step.variables)?)))
        .collect::<Result<_, InstallerError>>()?;
    for (relative, text) in plan.files.iter().chain(&further) {
        let path = staging.in_work(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(&failed)?;
        }
        write_new(&path, text.as_bytes(), 0o600).map_err(&failed)?;
    }
    write_record(&staging.hidden(), &hidden_values(request), 0o600).map_err(&failed)?;
    let mut intent = intent(options, user, layout, request, plan, (sockets, remove_at_end));
    if let Some(earlier) = earlier {
        // The step that leaves it may be one of those that are passed over.
        if let Some(kubeconfig) = &earlier.kubeconfig {
            write_new(&staging.kubeconfig(), kubeconfig, 0o600).map_err(&failed)?;
        }
        intent.resume = Some(earlier.resume.clone());
        intent.estimate_seconds = None;
    }
    write_record(&staging.intent(), &intent, 0o600).map_err(&failed)?;
    if let Some(user) = user {
        give_away(&staging.work(), user).map_err(&failed)?;
    }
    Ok(())
}

/// The installer's own variables are ours, so they may refer to others; their names may be reserved ones.
fn render_own_variables(variables: &BTreeMap<String, serde_json::Value>) -> Result<String, InstallerError> {
    // JSON is YAML, and nothing here came from a user.
    serde_json::to_string_pretty(variables).map_err(|source| InstallerError::Failed {
        operation: "write the installer's variables".to_owned(),
        source: Box::new(source),
    })
}

fn intent(
    options: &EngineOptions,
    user: Option<&RunUser>,
    layout: &RunLayout,
    request: &InstallRequest,
    plan: &RunPlan,
    (sockets, remove_at_end): (PathBuf, Vec<PathBuf>),
) -> Intent {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let usual = file_name(request.inventory.format);
    let steps = plan.steps.iter().enumerate();
    let mut before: Vec<_> = steps.map(|(number, step)| arguments(layout, usual, number, step)).collect();
    let arguments = before.pop().unwrap_or_default();
    let binaries = options.ansible_playbook.parent().map(Path::to_path_buf).unwrap_or_default();
    let home = text(layout.in_work("home"));
    let environment = [
        ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", binaries.display())),
        ("HOME", home.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("TMPDIR", text(layout.in_work("tmp"))),
        ("ANSIBLE_CONFIG", text(layout.ansible_config())),
        ("ANSIBLE_HOME", format!("{home}/.ansible")),
        ("ANSIBLE_LOCAL_TEMP", text(layout.in_work("tmp"))),
        ("ANSIBLE_HOST_KEY_CHECKING", "True".to_owned()),
        ("ANSIBLE_NOCOLOR", "1".to_owned()),
        ("HAGANE_PROGRESS_FILE", text(layout.progress())),
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ];
    let kind = kind_of(request, plan);
    let playbook = plan.steps.last().map(|step| layout.work().join(&step.playbook)).unwrap_or_default();
    Intent {
        run_id: request.run_id.clone(),
        owner_uid: request.owner_uid.clone(),
        cluster: request.cluster.clone(),
        installer: plan.installer,
        created_at: now(),
        program: options.ansible_playbook.clone(),
        before,
        arguments,
        environment: environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        working_directory: playbook.parent().map_or_else(|| layout.work(), Path::to_path_buf),
        time_limit_seconds: request.time_limit.as_secs().max(1),
        stall_limit_seconds: request.limits.stall.map(|limit| limit.as_secs().max(1)),
        play_limit_seconds: request.limits.play.map(|limit| limit.as_secs().max(1)),
        estimate_seconds: history::estimate(&options.runs, &kind).map(|length| length.as_secs()),
        kind: Some(kind),
        stages: stages(plan),
        same: Some(digest(request, plan)),
        resume: None,
        log_limit_bytes: options.log_limit_bytes,
        user: user.cloned(),
        marker: uuid::Uuid::new_v4().to_string(),
        sockets,
        remove_at_end,
        tool: plan.tool.clone(),
        then: plan.then.clone(),
    }
}

fn kind_of(request: &InstallRequest, plan: &RunPlan) -> RunKind {
    let (verb, worked_on) = match &request.verb {
        InstallVerb::AddWorkers(nodes) | InstallVerb::AddMasters(nodes) => ("Add", nodes.len()),
        InstallVerb::RemoveNodes { nodes, .. } => ("RemoveNodes", nodes.len()),
        InstallVerb::Install => ("Install", request.inventory.nodes.len()),
        InstallVerb::Upgrade { .. } => ("Upgrade", request.inventory.nodes.len()),
        InstallVerb::Reconfigure => ("Reconfigure", request.inventory.nodes.len()),
        InstallVerb::RenewCertificates => ("RenewCertificates", request.inventory.nodes.len()),
        InstallVerb::Reset => ("Reset", request.inventory.nodes.len()),
        InstallVerb::RecoverControlPlane { .. } => ("RecoverControlPlane", request.inventory.nodes.len()),
    };
    RunKind {
        installer: plan.installer,
        verb: verb.to_owned(),
        version: plan.version.clone(),
        nodes: u32::try_from(worked_on).unwrap_or(u32::MAX),
    }
}

/// What must not be told of the run: the key, and what the user's variables name as secret.
fn hidden_values(request: &InstallRequest) -> Vec<String> {
    let mut values = vec![request.ssh.private_key.clone()];
    for (name, value) in &request.variables {
        collect_hidden(name, value, &mut values);
    }
    values
}

fn collect_hidden(name: &str, value: &serde_json::Value, values: &mut Vec<String>) {
    const WORDS: [&str; 6] = ["passw", "passphrase", "secret", "token", "credential", "key"];
    match value {
        serde_json::Value::String(text) => {
            let name = name.to_ascii_lowercase();
            if WORDS.iter().any(|word| name.contains(word)) {
                values.push(text.clone());
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| collect_hidden(name, value, values)),
        serde_json::Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| collect_hidden(&format!("{name}.{field}"), value, values));
        }
        _ => {}
    }
}

/// File with the variables of one step.
fn step_file(number: usize) -> String {
    format!("step-{}.yaml", number + 1)
}

fn arguments(layout: &RunLayout, usual: &str, number: usize, step: &Step) -> Vec<String> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let inventory = layout.in_work(step.inventory.unwrap_or(usual));
    let mut arguments = vec![
        "--inventory".to_owned(),
        text(inventory),
        "--extra-vars".to_owned(),
        format!("@{}", layout.variables().display()),
        "--extra-vars".to_owned(),
        format!("@{}", layout.own_variables().display()),
    ];
    if !step.variables.is_empty() {
        arguments.extend(["--extra-vars".to_owned(), format!("@{}", layout.in_work(&step_file(number)).display())]);
    }
    arguments.extend(step.limit.map(|group| format!("--limit={group}")));
    arguments.push(text(layout.work().join(&step.playbook)));
    arguments
}

fn render_config(
    options: &EngineOptions,
    layout: &RunLayout,
    request: &InstallRequest,
    plan: &RunPlan,
    facts: &Path,
    sockets: &Path,
) -> String {
    let known_hosts = layout.in_work("ssh/known_hosts");
    let plugins = layout.in_work("plugins/callback");
    let key = layout.in_work("ssh/id");
    let mut text = String::from("[defaults]\n");
    let lines = [
        format!("remote_user = {}", request.ssh.user),
        format!("private_key_file = {}", key.display()),
        "host_key_checking = True".to_owned(),
        format!("forks = {}", options.forks),
        "timeout = 15".to_owned(),
        "retry_files_enabled = False".to_owned(),
        "interpreter_python = auto_silent".to_owned(),
        "gathering = smart".to_owned(),
        "fact_caching = ansible.builtin.jsonfile".to_owned(),
        format!("fact_caching_connection = {}", facts.display()),
        "fact_caching_timeout = 86400".to_owned(),
        format!("callback_plugins = {}", plugins.display()),
        format!("callbacks_enabled = {CALLBACK_NAME}"),
        "display_args_to_stdout = False".to_owned(),
        "any_errors_fatal = False".to_owned(),
        // Expanded by the shell where the task runs. The default asks passwd, in which a service's user has no home.
        "remote_tmp = $HOME/.ansible/tmp".to_owned(),
    ];
    for line in lines.iter().chain(&plan.config_lines) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str("\n[privilege_escalation]\nbecome = True\n\n[ssh_connection]\npipelining = True\nretries = 2\n");
    let _ = writeln!(text, "control_path_dir = {}", sockets.display());
    let _ = writeln!(
        text,
        "ssh_args = -F none -o ControlMaster=auto -o ControlPersist=60s -o StrictHostKeyChecking=yes \
         -o UserKnownHostsFile=\"{}\" -o GlobalKnownHostsFile=/dev/null -o IdentitiesOnly=yes -o IdentityAgent=none \
         -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o ServerAliveInterval=15 \
         -o ServerAliveCountMax=4",
        known_hosts.display()
    );
    text
}

/// Where ssh keeps its control sockets: in the run directory, else beside the runs under a short name, else in /tmp. What is
/// not in the run directory is removed at the run's end.
fn socket_directory(runs: &Path, layout: &RunLayout, user: Option<&RunUser>) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let fits = |path: &Path| path.as_os_str().as_bytes().len() <= SOCKET_DIRECTORY_BYTES_MAX;
    let inside = layout.in_work("cp");
    if fits(&inside) {
        return Ok((inside, Vec::new()));
    }
    let name = uuid::Uuid::new_v4().simple().to_string();
    let beside = runs.join("cp").join(&name[..12]);
    let short = if fits(&beside) {
        make_passage(&runs.join("cp"))?;
        beside
    } else {
        PathBuf::from(format!("/tmp/hagane-{name}"))
    };
    create_directory(&short, 0o700)?;
    if let Some(user) = user {
        give_away(&short, user)?;
    }
    Ok((short.clone(), vec![short]))
}

/// A directory that the run's user passes through and cannot list.
pub(crate) fn make_passage(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o711))
}

fn make_facts(facts: &Path, user: Option<&RunUser>) -> io::Result<()> {
    if let Some(parent) = facts.parent() {
        make_passage(parent)?;
    }
    // An earlier run of the owner, or one that is prepared at this moment, may have made it.
    match create_directory(facts, 0o700) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && facts.is_dir() => {}
        made => made?,
    }
    if let Some(user) = user {
        std::os::unix::fs::lchown(facts, Some(user.uid), Some(user.gid))?;
    }
    Ok(())
}

/// An owner's uid as a file name.
pub(crate) fn file_name_of(owner_uid: &str) -> Result<&str, InstallerError> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !owner_uid.is_empty() && owner_uid.len() <= 64 && owner_uid.bytes().all(inside) {
        return Ok(owner_uid);
    }
    Err(invalid("owner uid", owner_uid, "letters, digits and '-', at most 64 characters"))
}

/// Gives a tree to the run's user. Nothing of the tree was within that user's reach before, so no link can be in it.
fn give_away(path: &Path, user: &RunUser) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path(), user)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid))
}

/// Finds a user in `/etc/passwd`.
pub(super) fn look_up_user(name: &str) -> Result<RunUser, InstallerError> {
    let missing = |detail: String| InstallerError::Prerequisite { what: format!("user {name:?}"), detail };
    if !rustix::process::geteuid().is_root() {
        return Err(missing("running Ansible as another user needs root".to_owned()));
    }
    let text = fs::read_to_string("/etc/passwd").map_err(directory_error("read /etc/passwd"))?;
    let user = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        found.then(|| RunUser { name: name.to_owned(), uid, gid })
    });
    match user {
        Some(user) if user.uid == 0 => Err(missing("is root; name an unprivileged one".to_owned())),
        Some(user) => Ok(user),
        None => Err(missing("not in /etc/passwd; `useradd --system` makes one".to_owned())),
    }
}

/// Checks that the run's user can pass through every directory on the way to what it has to read.
fn check_reach<'a>(user: &RunUser, paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), InstallerError> {
    for path in paths {
        let real = fs::canonicalize(path).map_err(directory_error("resolve a directory of the run"))?;
        for directory in real.ancestors().skip(usize::from(!real.is_dir())) {
            let metadata = fs::metadata(directory).map_err(directory_error("look at a directory of the run"))?;
            let mode = metadata.mode();
            let passes = match () {
                () if metadata.uid() == user.uid => mode & 0o100 != 0,
                () if metadata.gid() == user.gid => mode & 0o010 != 0,
                () => mode & 0o001 != 0,
            };
            if !passes {
                return Err(InstallerError::Prerequisite {
                    what: format!("access of user {:?} to {}", user.name, path.display()),
                    detail: format!(
                        "{} has mode {:04o}; choose another place or mode",
                        directory.display(),
                        mode & 0o7777
                    ),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_looked_for_on_the_path_and_a_path_is_not() {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join("ansible-playbook");
        let path = Some(OsString::from(format!("/nonexistent:{}", place.path().display())));
        let refusal = find_program(Path::new("ansible-playbook"), path.clone()).expect_err("not there yet").to_string();
        assert!(refusal.contains("ansible-playbook on PATH"), "{refusal}");
        fs::write(&program, "").expect("a file");
        let found = |name: &str, path: Option<OsString>| find_program(Path::new(name), path).ok();
        assert_eq!(found("ansible-playbook", path.clone()), Some(program.clone()));
        assert_eq!(found(&program.display().to_string(), None), Some(program.clone()));
        assert_eq!(found("./ansible-playbook", path), None);
        assert_eq!(found("ansible-playbook", Some(".".into())), None);
    }

    #[test]
    fn control_sockets_lie_where_their_paths_are_short_enough() {
        let place = tempfile::tempdir().expect("a directory");
        let runs = place.path().join("runs");
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef";
        let of = |runs: &Path| {
            let layout = RunLayout::of(runs, id).expect("a layout");
            socket_directory(runs, &layout, None).expect("a directory")
        };
        let (sockets, removed) = of(&runs);
        assert!(sockets.starts_with(runs.join("cp")) && sockets.is_dir(), "{}", sockets.display());
        assert_eq!(removed, [sockets]);
        let deep = runs.join("d".repeat(SOCKET_DIRECTORY_BYTES_MAX));
        let (sockets, removed) = of(&deep);
        assert!(sockets.starts_with("/tmp") && sockets.is_dir(), "{}", sockets.display());
        assert_eq!(removed, std::slice::from_ref(&sockets));
        fs::remove_dir(sockets).expect("it is empty");
        let short = RunLayout::of(Path::new("/r"), "1").expect("a layout");
        assert_eq!(
            socket_directory(Path::new("/r"), &short, None).expect("nothing is made"),
            (short.in_work("cp"), Vec::new())
        );
    }
}
