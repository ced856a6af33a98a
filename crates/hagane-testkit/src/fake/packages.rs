//! A Debian host in memory: packages, units that run the package manager, and boots; behind a [`FakeShell`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shell::{FakeShell, ShellAnswer};

/// How a unit ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitEnd {
    /// Well, with what was asked for done.
    Well,
    /// With this exit status, having printed this.
    Failed(i32, String),
    /// Not: it goes on, having printed this.
    GoesOn(String),
}

/// The host.
#[derive(Clone, Debug, Default)]
pub struct FakePackages {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    installed: BTreeMap<String, String>,
    offered: BTreeMap<String, String>,
    units: BTreeMap<String, (Vec<String>, UnitEnd)>,
    ends: Vec<UnitEnd>,
    started: Vec<Vec<String>>,
    boots: u32,
    reboot_required: bool,
}

impl FakePackages {
    /// A host on the network of `shell` on which these packages can be had.
    #[must_use]
    pub fn on(shell: &FakeShell, address: &str, offered: &[(&str, &str)]) -> Self {
        let host = Self::default();
        host.lock().offered =
            offered.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
        shell.answer(address, &["apt-get", "--version"], ShellAnswer::stdout("apt 2.6.1\n"));
        shell.answer(address, &["systemd-run", "--version"], ShellAnswer::stdout("systemd 252\n"));
        for words in [
            &["systemd-run"][..],
            &["systemctl", "show"],
            &["systemctl", "stop"],
            &["systemctl", "reset-failed"],
            &["systemctl", "reboot"],
            &["journalctl"],
            &["dpkg-query"],
            &["test", "-e", "/run/reboot-required"],
            &["cat", "/proc/sys/kernel/random/boot_id"],
        ] {
            if words == ["systemd-run"] {
                shell.answer(address, &["systemd-run", "--quiet"], host.answers());
            } else {
                shell.answer(address, words, host.answers());
            }
        }
        host
    }

    fn answers(&self) -> ShellAnswer {
        let host = self.clone();
        ShellAnswer::computed(move |argv| host.lock().answer(argv))
    }

    /// Installs a package by hand, or removes it.
    pub fn set(&self, name: &str, version: Option<&str>) {
        let mut state = self.lock();
        match version {
            Some(version) => state.installed.insert(name.to_owned(), version.to_owned()),
            None => state.installed.remove(name),
        };
    }

    /// What is installed, as `name=version`.
    #[must_use]
    pub fn installed(&self) -> Vec<String> {
        self.lock().installed.iter().map(|(name, version)| format!("{name}={version}")).collect()
    }

    /// Sets how the next units end, in order; further ones end well.
    pub fn set_ends(&self, ends: &[UnitEnd]) {
        self.lock().ends = ends.to_vec();
    }

    /// Ends units that go on, well.
    pub fn end_units(&self) {
        let mut state = self.lock();
        let units: Vec<String> = state.units.keys().cloned().collect();
        for unit in units {
            state.end_well(&unit);
        }
    }

    /// Whether the package manager wants a reboot.
    pub fn set_reboot_required(&self, required: bool) {
        self.lock().reboot_required = required;
    }

    /// Programs that were started in units, with their arguments.
    #[must_use]
    pub fn started(&self) -> Vec<Vec<String>> {
        self.lock().started.clone()
    }

    /// Names of units that are still known.
    #[must_use]
    pub fn units(&self) -> Vec<String> {
        self.lock().units.keys().cloned().collect()
    }

    /// Times it was booted again.
    #[must_use]
    pub fn boots(&self) -> u32 {
        self.lock().boots
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answer(&mut self, argv: &[String]) -> ShellAnswer {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        match words[..] {
            ["systemd-run", ..] => self.start(argv),
            ["systemctl", "show", _, unit] => self.show(unit.trim_end_matches(".service")),
            ["systemctl", "stop", pattern] => {
                let prefix = pattern.split('*').next().unwrap_or_default().to_owned();
                self.units.retain(|name, _| !name.starts_with(&prefix));
                ShellAnswer::stdout("")
            }
            ["systemctl", "reboot"] => {
                self.boots += 1;
                self.units.clear();
                self.reboot_required = false;
                ShellAnswer::Break
            }
            ["systemctl", ..] => ShellAnswer::stdout(""),
            ["journalctl", ..] => {
                let unit = words.last().and_then(|word| word.strip_prefix("--unit=")).unwrap_or_default();
                let printed = match self.units.get(unit.trim_end_matches(".service")) {
                    Some((_, UnitEnd::Failed(_, printed) | UnitEnd::GoesOn(printed))) => printed.clone(),
                    Some((argv, UnitEnd::Well)) => format!("{} has ended\n", argv.join(" ")),
                    None => String::new(),
                };
                ShellAnswer::stdout(&printed)
            }
            ["dpkg-query", ..] => self.query(&words),
            ["test", ..] => ShellAnswer::exit(u32::from(!self.reboot_required), "", ""),
            ["cat", ..] => ShellAnswer::stdout(&format!("boot-{}\n", self.boots)),
            _ => ShellAnswer::exit(127, "", "not found"),
        }
    }

    fn query(&self, words: &[&str]) -> ShellAnswer {
        let asked = words.iter().skip_while(|word| **word != "--").skip(1);
        let line = |name: &&str| Some(format!("{name}\tii \t{}\n", self.installed.get(*name)?));
        let (found, missing): (Vec<_>, Vec<_>) = asked.map(line).partition(Option::is_some);
        let text: String = found.into_iter().flatten().collect();
        ShellAnswer::exit(u32::from(!missing.is_empty()), &text, "")
    }

    fn start(&mut self, argv: &[String]) -> ShellAnswer {
        let unit = argv.iter().find_map(|word| word.strip_prefix("--unit=")).unwrap_or_default().to_owned();
        if self.units.contains_key(&unit) {
            return ShellAnswer::exit(1, "", &format!("Unit {unit}.service was already loaded"));
        }
        let program: Vec<String> = argv.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
        self.started.push(program.clone());
        let end = if self.ends.is_empty() { UnitEnd::Well } else { self.ends.remove(0) };
        let well = end == UnitEnd::Well;
        self.units.insert(unit.clone(), (program, end));
        if well {
            self.end_well(&unit);
        }
        ShellAnswer::stdout("")
    }

    fn end_well(&mut self, unit: &str) {
        let Some((program, end)) = self.units.get_mut(unit) else { return };
        *end = UnitEnd::Well;
        let packages: Vec<String> = program.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
        if program.iter().any(|word| word == "--remove") {
            self.installed.retain(|name, _| !packages.contains(name));
            return;
        }
        for package in packages {
            let (name, version) = match package.split_once('=') {
                Some((name, version)) => (name.to_owned(), Some(version.to_owned())),
                None => (package.clone(), self.offered.get(&package).cloned()),
            };
            if let Some(version) = version {
                self.installed.insert(name, version);
            }
        }
    }

    fn show(&self, unit: &str) -> ShellAnswer {
        let (active, result, status) = match self.units.get(unit).map(|(_, end)| end) {
            None => return ShellAnswer::stdout("LoadState=not-found\nActiveState=inactive\n"),
            Some(UnitEnd::Well) => ("active", "success", 0),
            Some(UnitEnd::Failed(status, _)) => ("failed", "exit-code", *status),
            Some(UnitEnd::GoesOn(_)) => ("activating", "success", 0),
        };
        ShellAnswer::stdout(&format!(
            "Result={result}\nExecMainStatus={status}\nLoadState=loaded\nActiveState={active}\n"
        ))
    }
}
