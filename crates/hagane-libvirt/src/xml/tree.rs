//! A small XML tree: enough to write libvirt's documents in a readable form and to read what it answers.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// How deep documents may nest. libvirt's own go about ten levels deep.
const DEPTH_MAX: usize = 64;

/// An element with its attributes, children and text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Name, with its prefix.
    pub name: String,
    /// Attributes in order.
    pub attributes: Vec<(String, String)>,
    /// Child elements in order.
    pub children: Vec<Element>,
    /// Text directly inside, trimmed.
    pub text: String,
}

/// Why a text is no document we can read.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// Not well-formed.
    #[error("not well-formed XML: {0}")]
    Syntax(String),
    /// Elements nest too deep.
    #[error("XML elements nest deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// There is no root element.
    #[error("there is no XML element")]
    Empty,
}

impl Element {
    /// An empty element.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// An element with text in it.
    #[must_use]
    pub fn with_text(name: &str, text: impl ToString) -> Self {
        Self { text: text.to_string(), ..Self::new(name) }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: impl ToString) -> Self {
        self.attributes.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a child.
    #[must_use]
    pub fn child(mut self, child: Element) -> Self {
        self.children.push(child);
        self
    }

    /// Adds several children.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children);
        self
    }

    /// Value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The first child of this name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The element reached by following first children of these names.
    #[must_use]
    pub fn path(&self, names: &[&str]) -> Option<&Element> {
        names.iter().try_fold(self, |element, name| element.first(name))
    }

    /// Text of the element at `names`.
    #[must_use]
    pub fn text_at(&self, names: &[&str]) -> Option<&str> {
        self.path(names).map(|element| element.text.as_str())
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`XmlError`].
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Element> = Vec::new();
        loop {
            match reader.read_event().map_err(|error| XmlError::Syntax(error.to_string()))? {
                Event::Start(start) => {
                    if open.len() >= DEPTH_MAX {
                        return Err(XmlError::TooDeep);
                    }
                    open.push(begin(&start)?);
                }
                Event::Empty(start) => {
                    if let Some(root) = close(&mut open, begin(&start)?) {
                        return Ok(root);
                    }
                }
                Event::End(_) => {
                    let element = open.pop().ok_or(XmlError::Empty)?;
                    if let Some(root) = close(&mut open, element) {
                        return Ok(root);
                    }
                }
                Event::Text(text) => {
                    let text = text.xml10_content().map_err(|error| XmlError::Syntax(error.to_string()))?;
                    append(&mut open, &text);
                }
                Event::CData(data) => append(&mut open, &String::from_utf8_lossy(&data)),
                Event::GeneralRef(name) => append(&mut open, &resolve(&name)?),
                Event::Eof => return Err(XmlError::Empty),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    /// The document as text, two spaces a level, so that it can be read and compared line by line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, level: usize) {
        let indent = "  ".repeat(level);
        out.push_str(&indent);
        out.push('<');
        out.push_str(&self.name);
        for (name, value) in &self.attributes {
            out.push_str(&format!(" {name}=\"{}\"", escape(value)));
        }
        if self.children.is_empty() && self.text.is_empty() {
            out.push_str("/>\n");
            return;
        }
        out.push('>');
        out.push_str(&escape(&self.text));
        if !self.children.is_empty() {
            out.push('\n');
            for child in &self.children {
                child.write(out, level + 1);
            }
            out.push_str(&indent);
        }
        out.push_str(&format!("</{}>\n", self.name));
    }
}

/// Escapes what XML does not take as it is; characters XML cannot hold at all are left out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", u32::from(letter))),
            control if control < ' ' => {}
            '\u{fffe}' | '\u{ffff}' => {}
            letter => out.push(letter),
        }
    }
    out
}

fn begin(start: &BytesStart<'_>) -> Result<Element, XmlError> {
    let mut element = Element::new(&String::from_utf8_lossy(start.name().as_ref()));
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| XmlError::Syntax(error.to_string()))?;
        let value = attribute.unescape_value().map_err(|error| XmlError::Syntax(error.to_string()))?;
        element.attributes.push((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned()));
    }
    Ok(element)
}

/// Puts a finished element into its parent, or hands it back where it has none.
fn close(open: &mut [Element], mut element: Element) -> Option<Element> {
    element.text = element.text.trim().to_owned();
    match open.last_mut() {
        Some(parent) => {
            parent.children.push(element);
            None
        }
        None => Some(element),
    }
}

fn append(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn resolve(name: &quick_xml::events::BytesRef<'_>) -> Result<String, XmlError> {
    let syntax = |error: &dyn std::fmt::Display| XmlError::Syntax(error.to_string());
    if let Some(letter) = name.resolve_char_ref().map_err(|error| syntax(&error))? {
        return Ok(letter.to_string());
    }
    let name = name.decode().map_err(|error| syntax(&error))?;
    let value = quick_xml::escape::resolve_predefined_entity(&name);
    value.map(str::to_owned).ok_or_else(|| XmlError::Syntax(format!("unknown entity {name:?}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_libvirt_writes() {
        let text = "<?xml version='1.0'?>\n<!-- x --><domain type='kvm'><name>a &amp; b&#33;</name><devices><disk/><disk n='&lt;2'/></devices></domain>";
        let domain = Element::parse(text).expect("well-formed");
        assert_eq!(domain.get("type"), Some("kvm"));
        assert_eq!(domain.text_at(&["name"]), Some("a & b!"));
        let disks: Vec<_> = domain.first("devices").expect("devices").all("disk").map(|disk| disk.get("n")).collect();
        assert_eq!(disks, [None, Some("<2")]);
    }

    #[test]
    fn refuses_what_is_no_document() {
        for text in ["", "text", "<a>", "<a></b>", "<a b=c/>", "<a>&nosuch;</a>"] {
            Element::parse(text).expect_err(text);
        }
        assert!(matches!(Element::parse(&"<a>".repeat(100)), Err(XmlError::TooDeep)));
    }

    proptest! {
        #[test]
        fn reads_back_what_it_wrote(value in "\\PC{0,30}", text in "\\PC{0,30}") {
            let element = Element::new("a").attribute("b", &value).child(Element::with_text("c", text.trim()));
            let read = Element::parse(&element.to_text()).expect("well-formed");
            let kept = |text: &str| text.chars().filter(|letter| !matches!(letter, '\u{fffe}' | '\u{ffff}')).collect::<String>();
            prop_assert_eq!(read.get("b").map(str::to_owned), Some(kept(&value)));
            prop_assert_eq!(read.text_at(&["c"]).map(str::to_owned), Some(kept(text.trim()).trim().to_owned()));
        }
    }
}
