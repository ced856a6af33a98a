//! Output of programs as text that may be shown.

/// Turns bytes into text piece by piece.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The begin of a character whose rest has not come yet.
    begun: Vec<u8>,
    /// Whether a terminal shows it: what could act on one is blanked then. Files and pipes get everything.
    for_terminal: bool,
}

impl Decoder {
    pub(super) fn new(for_terminal: bool) -> Self {
        Self { begun: Vec::new(), for_terminal }
    }

    pub(super) fn text(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let whole = all.len() - unfinished(&all);
        self.begun = all.split_off(whole);
        let text = String::from_utf8_lossy(&all);
        if self.for_terminal { text.chars().map(plain).collect() } else { text.into_owned() }
    }
}

/// Number of bytes at the end that may be the begin of a character.
fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if back < length { back } else { 0 };
    }
    0
}

fn plain(character: char) -> char {
    match character {
        '\n' | '\t' => character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        other if other.is_control() => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_in_pieces_stays_whole() {
        let text = "a\u{e4}\u{20ac}\u{1f600}z";
        for size in 1..8 {
            let mut decoder = Decoder::new(false);
            let read: String = text.as_bytes().chunks(size).map(|piece| decoder.text(piece)).collect();
            assert_eq!(read, text, "in pieces of {size}");
        }
        let mut decoder = Decoder::new(false);
        assert_eq!(decoder.text(b"\xff\x80a"), "\u{fffd}\u{fffd}a", "what is no character is shown as such");
    }

    #[test]
    fn a_terminal_gets_nothing_that_acts_on_it() {
        let odd = "a\u{1b}[2Jb\u{202e}c\td\r\n";
        assert_eq!(Decoder::new(true).text(odd.as_bytes()), "a [2Jb c\td \n");
        assert_eq!(Decoder::new(false).text(odd.as_bytes()), odd);
    }
}
