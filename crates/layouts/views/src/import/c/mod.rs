//! Structs of C headers, laid out like the usual 64-bit compilers do.

mod words;

use std::collections::HashMap;

use super::{Error, bad, declaration, shown, unsupported};
use words::{Word, words};

/// Returns a declaration of the structs in a header, with an array of the last one.
pub(super) fn header(text: &str, count: u64) -> Result<String, Error> {
    let (words, lines) = words(text)?;
    let mut reader = Reader {
        words,
        at: 0,
        types: HashMap::new(),
        others: HashMap::new(),
        structs: HashMap::new(),
        lines,
        last: None,
    };
    while reader.at < reader.words.len() {
        reader.declaration()?;
    }
    let Some(last) = reader.last else { return bad("there is no struct in it") };
    let packed = match reader.structs.get(&last) {
        Some(Struct { mixed: Some(why), .. }) => return unsupported(why),
        Some(known) => known.packed,
        None => false,
    };
    reader.lines.push(format!("var data [{count}]{last}"));
    let flags = if packed { " packed" } else { " aligned" };
    Ok(declaration("Structs of a C header.", &reader.lines, flags, &[shown("data", &[])]))
}

/// A declared struct.
struct Struct {
    packed: bool,
    /// Why its layout is unknown: a packed struct contains one that is not packed, or the other way round.
    mixed: Option<String>,
}

struct Reader {
    words: Vec<Word>,
    at: usize,
    /// The names of types, and their names in the language.
    types: HashMap<String, String>,
    /// The names of types without a counterpart in the language, and a description of each.
    others: HashMap<String, &'static str>,
    /// The structs, by their names in the language.
    structs: HashMap<String, Struct>,
    lines: Vec<String>,
    last: Option<String>,
}

impl Reader {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", |word| &word.text)
    }

    /// Returns the alignment of `#pragma pack` at the next word.
    fn pack(&self) -> u64 {
        self.words.get(self.at).map_or(0, |word| word.pack)
    }

    fn next(&mut self) -> String {
        let word = self.peek().to_owned();
        self.at += 1;
        word
    }

    fn eat(&mut self, word: &str) -> bool {
        let is = self.peek() == word;
        self.at += usize::from(is);
        is
    }

    /// Parses a declaration at the top level; skips everything that is not a struct.
    fn declaration(&mut self) -> Result<(), Error> {
        let typedef = self.eat("typedef");
        if self.peek() == "struct" && self.has_body()? {
            let kind = self.structure(0)?;
            if typedef {
                self.names(&kind)?;
            }
        } else if typedef {
            let start = self.at;
            if let Ok(kind) = self.kind(0) {
                let name = self.next();
                if self.peek() == ";" {
                    self.types.insert(name, kind);
                }
            } else {
                self.at = start;
            }
        }
        let mut open = 0usize;
        while self.at < self.words.len() {
            match self.next().as_str() {
                "{" => open += 1,
                "}" => {
                    open = open.saturating_sub(1);
                    if open == 0 && self.peek() != ";" {
                        break;
                    }
                }
                ";" if open == 0 => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether the body of the next struct follows here.
    fn has_body(&mut self) -> Result<bool, Error> {
        let start = self.at;
        self.at += 1;
        self.passed()?;
        if self.peek() != "{" {
            self.at += 1;
        }
        self.passed()?;
        let has = self.peek() == "{";
        self.at = start;
        Ok(has)
    }

    /// Parses the names that a typedef gives to a struct.
    fn names(&mut self, kind: &str) -> Result<(), Error> {
        let (mut other, mut open) = (None, 0);
        while !matches!(self.peek(), ";" | "") {
            if self.attributes()? {
                return unsupported(format!("a name of {kind} is packed; say so behind its fields"));
            }
            match self.next().as_str() {
                "," => other = None,
                "(" => (other, open) = (Some("a pointer"), open + 1),
                "*" => other = Some("a pointer"),
                name if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    match other.or((self.peek() == "[").then_some("an array")) {
                        Some(what) => drop(self.others.insert(name.to_owned(), what)),
                        None => drop(self.types.insert(name.to_owned(), kind.to_owned())),
                    }
                    // The rest of the declarator is not the name of a type.
                    loop {
                        match self.peek() {
                            ";" | "" => break,
                            "," | "__attribute__" | "__attribute" if open == 0 => break,
                            "(" => open += 1,
                            ")" => open -= 1,
                            _ => {}
                        }
                        self.at += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses `struct [attributes] [tag] { fields } [attributes]`. Returns the name in the language.
    fn structure(&mut self, depth: usize) -> Result<String, Error> {
        if depth > 16 {
            return bad("structs are nested more than 16 levels deep");
        }
        self.at += 1;
        let mut packed = self.attributes()?;
        let tag = if self.peek() == "{" { format!("struct{}", self.lines.len()) } else { self.next() };
        packed |= self.attributes()?;
        let pack = self.pack();
        if !self.eat("{") {
            let known = self.types.get(&format!("struct {tag}")).cloned();
            return known.ok_or_else(|| Error::Bad(format!("struct {tag} is not declared before it is used")));
        }
        let (mut fields, mut within) = (Vec::new(), Vec::new());
        while !self.eat("}") {
            if self.peek().is_empty() {
                return bad(format!("struct {tag} is never closed"));
            }
            if self.pack() != pack {
                return unsupported(format!("#pragma pack changes within struct {tag}"));
            }
            within.push(self.fields(&mut fields, depth)?);
        }
        packed |= self.attributes()?;
        match pack {
            _ if packed => {}
            0 | 8.. => {}
            1 => packed = true,
            _ => return unsupported(format!("struct {tag} has #pragma pack({pack})")),
        }
        let mixed = within.iter().filter_map(|kind| Some((kind, self.structs.get(kind)?))).find_map(|(kind, known)| {
            let other = format!("of struct {tag} and struct {kind} in it only one is packed");
            known.mixed.clone().or((known.packed != packed).then_some(other))
        });
        self.structs.insert(tag.clone(), Struct { packed, mixed });
        self.lines.push(format!("type {tag} struct {{ {} }}", fields.join("; ")));
        self.types.insert(format!("struct {tag}"), tag.clone());
        self.last = Some(tag.clone());
        Ok(tag)
    }

    /// Parses fields of one type. Returns the type.
    fn fields(&mut self, fields: &mut Vec<String>, depth: usize) -> Result<String, Error> {
        let kind = self.kind(depth)?;
        loop {
            if self.peek() == "*" {
                return unsupported("it has a pointer");
            }
            let name = self.next();
            if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                return bad(format!("{name:?} stands where a field's name should be"));
            }
            let mut lengths = Vec::new();
            while self.eat("[") {
                let mut length = String::new();
                while !self.eat("]") {
                    if self.peek().is_empty() {
                        return bad(format!("the length of {name} is never closed"));
                    }
                    length.push_str(&self.next());
                }
                lengths.push(length);
            }
            let lengths = if lengths.is_empty() { String::new() } else { format!("[{}]", lengths.join(", ")) };
            fields.push(format!("{name} {lengths}{kind}"));
            if self.attributes()? {
                return unsupported(format!("the field {name} is packed by itself"));
            }
            match self.next().as_str() {
                "," => {}
                ";" => return Ok(kind),
                ":" => return unsupported(format!("{name} is a bit field")),
                other => return bad(format!("{other:?} stands behind the field {name}")),
            }
        }
    }

    /// Parses attributes. Returns whether one of them is `packed`.
    fn attributes(&mut self) -> Result<bool, Error> {
        let words = self.passed()?;
        let has = |name: &str| words.iter().any(|word| word.trim_matches('_') == name);
        for other in ["aligned", "Alignas", "alignas", "mode", "vector_size", "scalar_storage_order", "ms_struct"] {
            if has(other) {
                return unsupported(format!("it has the attribute {other}"));
            }
        }
        Ok(has("packed"))
    }

    /// Skips attributes. Returns their words.
    fn passed(&mut self) -> Result<Vec<String>, Error> {
        let mut words = Vec::new();
        while matches!(self.peek(), "__attribute__" | "_Alignas" | "alignas" | "__attribute") {
            words.push(self.next());
            let mut open = 0usize;
            loop {
                let word = self.next();
                match word.as_str() {
                    "(" => open += 1,
                    ")" if open <= 1 => break,
                    ")" => open -= 1,
                    "" => return bad("an attribute is never closed"),
                    _ => words.push(word),
                }
            }
        }
        Ok(words)
    }

    /// Parses a type up to the name that follows it.
    fn kind(&mut self, depth: usize) -> Result<String, Error> {
        let mut basic: Vec<String> = Vec::new();
        loop {
            let word = self.peek().to_owned();
            match word.as_str() {
                "const" | "volatile" | "static" | "extern" | "inline" => self.at += 1,
                "__attribute__" | "__attribute" | "_Alignas" | "alignas" => {
                    if self.attributes()? {
                        return unsupported("a field is packed by itself");
                    }
                }
                "union" | "enum" => return unsupported(format!("it has {word}s")),
                "struct" if basic.is_empty() => return self.structure(depth + 1),
                "unsigned" | "signed" | "char" | "short" | "int" | "long" | "float" | "double" | "_Bool" | "bool"
                | "_Complex" | "complex" => {
                    basic.push(word);
                    self.at += 1;
                }
                _ => break,
            }
        }
        if basic.is_empty() {
            let word = self.next();
            if let Some(what) = self.others.get(&word) {
                return unsupported(format!("{word} is {what}"));
            }
            return match self.types.get(&word) {
                Some(kind) => Ok(kind.clone()),
                None => standard(&word)
                    .map(str::to_owned)
                    .ok_or_else(|| Error::Bad(format!("the type {word:?} is not known"))),
            };
        }
        let has = |word: &str| basic.iter().any(|b| b == word);
        let sign = if has("unsigned") { "u" } else { "" };
        Ok(match () {
            () if has("double") && has("long") => return unsupported("it has a long double"),
            () if has("double") && (has("_Complex") || has("complex")) => "complex128".to_owned(),
            () if has("float") && (has("_Complex") || has("complex")) => "complex64".to_owned(),
            () if has("double") => "float64".to_owned(),
            () if has("float") => "float32".to_owned(),
            () if has("_Bool") || has("bool") => "bool".to_owned(),
            () if has("char") => format!("{sign}int8"),
            () if has("short") => format!("{sign}int16"),
            () if has("long") => format!("{sign}int64"),
            () => format!("{sign}int32"),
        })
    }
}

fn standard(name: &str) -> Option<&'static str> {
    Some(match name {
        "int8_t" => "int8",
        "int16_t" => "int16",
        "int32_t" => "int32",
        "int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" | "off_t" | "time_t" => "int64",
        "uint8_t" => "uint8",
        "uint16_t" => "uint16",
        "uint32_t" => "uint32",
        "uint64_t" | "size_t" | "uintptr_t" => "uint64",
        "_Float16" => "float16",
        _ => return None,
    })
}
