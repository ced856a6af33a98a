//! What a task said, made fit to be shown: without secrets, without characters that act on a terminal, and short.
//!
//! What is hidden: the values that the run itself was given as secrets, and what looks like one (private keys, passwords
//! beside their names or in addresses, tokens of kubeadm, bearer tokens).

use std::sync::LazyLock;

use regex::Regex;

/// What stands in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Shortest value that is looked for: a shorter one would be found in words that are none.
const SECRET_BYTES_MIN: usize = 6;
/// Most characters of a message.
const MESSAGE_CHARACTERS_MAX: usize = 300;
/// Most lines of output kept.
const OUTPUT_LINES_MAX: usize = 20;
/// Most bytes of output kept.
const OUTPUT_BYTES_MAX: usize = 2048;

/// Escape sequences of terminals: colours, titles, movements.
static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]|\x9b[0-9;]*[@-~]")
});
/// What looks like a secret; the groups `keep` stay.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // A private key; of one whose begin was cut away, all before its end.
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"(?s)\A.*-----END [A-Z ]*PRIVATE KEY-----",
        // name: value, name=value, "name": "value"; also --name value.
        r#"(?i)(?P<keep>[a-z0-9_-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|credential|certificate[_-]key|private[_-]?key|client-key-data)[a-z0-9_-]*["']?\s*[:=]\s*["']?)[^\s"',;&]+"#,
        r"(?i)(?P<keep>--[a-z-]*(?:password|passphrase|secret|token|certificate-key)[a-z-]*\s+)[^\s-]\S*",
        r"(?i)(?P<keep>\b(?:bearer|basic)\s+)[a-z0-9._~+/=-]{8,}",
        // user:password@ in an address.
        r"(?P<keep>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]+:)[^\s/@]+(?P<after>@)",
        // Tokens of kubeadm, and of service accounts.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
    ];
    patterns.into_iter().filter_map(regex).collect()
});

fn regex(pattern: &str) -> Option<Regex> {
    // A pattern that does not compile is found by the tests, which count them.
    Regex::new(pattern).ok()
}

/// The secrets of a run, to be hidden.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Hides these values, and each of their lines.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for value in values {
            all.extend(value.lines().map(|line| line.trim().to_owned()));
            all.push(value);
        }
        all.retain(|value| value.len() >= SECRET_BYTES_MIN);
        // A longer one may hold a shorter one.
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        all.dedup();
        Self(all)
    }

    /// One line of a message.
    pub(crate) fn message(&self, text: &str) -> String {
        let clean = self.clean(text);
        let line = clean.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        match line.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        }
    }

    /// The last lines of an output.
    pub(crate) fn output(&self, text: &str) -> String {
        let clean = self.clean(text);
        let lines: Vec<&str> = clean.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let kept = lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join("\n");
        let mut begin = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
        while !kept.is_char_boundary(begin) {
            begin += 1;
        }
        kept[begin..].to_owned()
    }

    fn clean(&self, text: &str) -> String {
        let mut text = match ESCAPES.as_ref() {
            Some(escapes) => escapes.replace_all(text, "").into_owned(),
            None => text.to_owned(),
        };
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        for pattern in SECRETS.iter() {
            text = pattern.replace_all(&text, format!("${{keep}}{HIDDEN}${{after}}")).into_owned();
        }
        text.chars().map(plain).collect()
    }
}

/// Blanks what could act on a terminal or turn the order of what is read.
pub(super) fn plain(character: char) -> char {
    match character {
        '\n' => '\n',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        other if other.is_control() => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert!(ESCAPES.is_some());
        assert_eq!(SECRETS.len(), 8);
    }

    #[test]
    fn hides_what_the_run_was_given() {
        let secrets = Secrets::new(["hunter-2".to_owned(), "first line\nsecond-line\nab".to_owned(), "abc".to_owned()]);
        assert_eq!(secrets.message("sudo: hunter-2 is wrong, abc is right"), "sudo: [hidden] is wrong, abc is right");
        assert_eq!(secrets.output("see second-line ab\nfirst line"), "see [hidden] ab\n[hidden]");
    }

    #[test]
    fn hides_what_looks_like_a_secret_and_leaves_the_rest() {
        let none = Secrets::default();
        for (text, told) in [
            ("password=hunter2 host=a", "password=[hidden] host=a"),
            ("{\"db_password\": \"hunter2\", \"port\": 1}", "{\"db_password\": \"[hidden]\", \"port\": 1}"),
            ("API-KEY: 12345; next", "API-KEY: [hidden]; next"),
            (
                "kubeadm join --token abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification",
                "kubeadm join --token [hidden] --discovery-token-unsafe-skip-ca-verification",
            ),
            ("use abcdef.0123456789abcdef now", "use [hidden] now"),
            ("--certificate-key 00ff00ff00ff", "--certificate-key [hidden]"),
            ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer [hidden]"),
            ("GET https://user:hunter2@mirror.example/x", "GET https://user:[hidden]@mirror.example/x"),
            (
                "digest sha256:00aa11bb of /etc/kubernetes/token.csv",
                "digest sha256:00aa11bb of /etc/kubernetes/token.csv",
            ),
            ("no space left on device: /var/lib/etcd", "no space left on device: /var/lib/etcd"),
        ] {
            assert_eq!(none.message(text), told);
        }
        let key = "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----\nb";
        assert_eq!(none.output(key), "a\n[hidden]\nb");
        assert_eq!(none.output("BBBB\n-----END RSA PRIVATE KEY-----\nb"), "[hidden]\nb");
        assert_eq!(none.output("a\n-----BEGIN PRIVATE KEY-----\nAAAA"), "a\n[hidden]");
    }

    #[test]
    fn takes_away_what_acts_on_a_terminal() {
        let none = Secrets::default();
        assert_eq!(none.message("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{202e}y\rz\u{9b}1mq\u{0}"), "red x y zq");
        assert_eq!(none.output("a\tb\u{8}\n\u{1b}[2Kc"), "a b\nc");
    }

    #[test]
    fn keeps_the_end_within_its_bounds() {
        let none = Secrets::default();
        let many: String = (0..100).map(|number| format!("line {number}\n\n")).collect();
        let kept = none.output(&many);
        assert_eq!((kept.lines().count(), kept.lines().last()), (20, Some("line 99")));
        let wide = "ä".repeat(3000);
        assert!(none.output(&wide).len() <= 2048 && none.output(&wide).ends_with('ä'));
        assert_eq!(none.message(&wide).chars().count(), 301);
        assert_eq!(none.message("\n  \n second \n third"), "second");
    }
}
