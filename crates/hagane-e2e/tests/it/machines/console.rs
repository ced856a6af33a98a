//! The serial console of a machine of the tiny image: a shell waits there.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use super::site::Site;

/// Until the shell has answered: the machine may still boot, so the question is asked again and again.
const ANSWER: Duration = Duration::from_secs(60);
/// Pause between questions.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Runs a command line in the machine's shell and gives what it prints.
pub fn run(site: &Site<'_>, domain: &str, line: &str) -> Result<String> {
    let path = site.virsh(&["ttyconsole", domain])?;
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).context("open flags fit")?;
    let path = path.trim();
    let mut console =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).context("open the console")?;
    let end = Instant::now() + ANSWER;
    let (mut heard, mut asked) = (String::new(), None::<Instant>);
    while Instant::now() < end {
        if asked.is_none_or(|asked| asked.elapsed() > ASK_AGAIN) {
            // The shell echoes what it is told; the sum keeps that apart from the answer.
            let question = format!("\necho begin-$((40+2)); {line}; echo end-$((40+2))\n");
            console.write_all(question.as_bytes()).context("write to the console")?;
            asked = Some(Instant::now());
        }
        let mut piece = [0; 4096];
        match console.read(&mut piece) {
            Ok(count) => heard.push_str(&String::from_utf8_lossy(&piece[..count])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(error).context("read from the console"),
        }
        if let Some(answer) = answer(&heard) {
            return Ok(answer);
        }
    }
    bail!("the shell on the console of {domain} did not answer {line:?}; heard: {heard:?}")
}

fn answer(heard: &str) -> Option<String> {
    let (_, after) = heard.split_once("begin-42")?;
    let (answer, _) = after.split_once("end-42")?;
    Some(answer.replace('\r', ""))
}
