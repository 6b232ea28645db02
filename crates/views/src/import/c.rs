//! Structs of C headers, as the usual 64-bit compilers lay them out.

use std::collections::HashMap;

use super::{Error, bad, declaration, unsupported};

/// The declaration of the structs in a header, and an array of the last.
pub(super) fn header(text: &str, count: u64) -> Result<String, Error> {
    let clean = without_comments(text);
    let mut lines = Vec::new();
    let mut packed = false;
    let mut code = String::new();
    for line in clean.replace("\\\n", " ").lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            code.push_str(line);
            code.push('\n');
            continue;
        };
        let mut words = directive.split_whitespace();
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("define"), Some(name), Some(value), None) if value.parse::<i64>().is_ok() => {
                lines.push(format!("const {name} = {value}"))
            }
            (Some("pragma"), Some(pack), ..) if pack.starts_with("pack") => {
                packed |= directive.replace(' ', "").contains("1)");
            }
            _ => {}
        }
    }
    packed |= code.contains("packed");
    let mut reader = Reader { words: words(&code), at: 0, types: HashMap::new(), lines, last: None };
    while reader.at < reader.words.len() {
        reader.declaration()?;
    }
    let Some(last) = reader.last else { return bad("there is no struct in it") };
    reader.lines.push(format!("var data [{count}]{last}"));
    let flags = if packed { " packed" } else { " aligned" };
    Ok(declaration("Structs of a C header.", &reader.lines, flags, &["data".to_owned()]))
}

fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        let (before, comment) = rest.split_at(at);
        clean.push_str(before);
        clean.push(' ');
        let end = if comment.starts_with("/*") { comment.find("*/").map(|end| end + 2) } else { comment.find('\n') };
        rest = comment.get(end.unwrap_or(comment.len())..).unwrap_or_default();
    }
    clean + rest
}

fn words(code: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for c in code.chars() {
        let part = c.is_alphanumeric() || c == '_';
        match words.last_mut().filter(|_| part && open) {
            Some(word) => word.push(c),
            None if !c.is_whitespace() => words.push(c.to_string()),
            None => {}
        }
        open = part;
    }
    words
}

struct Reader {
    words: Vec<String>,
    at: usize,
    /// Names of types, and what they are called here.
    types: HashMap<String, String>,
    lines: Vec<String>,
    last: Option<String>,
}

impl Reader {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", String::as_str)
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

    /// A declaration at the top; what is no struct is passed over.
    fn declaration(&mut self) -> Result<(), Error> {
        let typedef = self.eat("typedef");
        let body = self.words.iter().skip(self.at).take(8).any(|word| word == "{");
        if self.peek() == "struct" && body {
            let kind = self.structure(0)?;
            self.attributes()?;
            // Names of variables end here, those of types stay.
            while self.peek() != ";" && !self.peek().is_empty() {
                let name = self.next();
                if typedef && name != "," {
                    self.types.insert(name.clone(), kind.clone());
                }
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

    /// `struct [attributes] [tag] { fields }`; its name here.
    fn structure(&mut self, depth: usize) -> Result<String, Error> {
        if depth > 16 {
            return bad("structs are nested more than 16 levels deep");
        }
        self.at += 1;
        self.attributes()?;
        let tag = if self.peek() == "{" { format!("struct{}", self.lines.len()) } else { self.next() };
        self.attributes()?;
        if !self.eat("{") {
            let known = self.types.get(&format!("struct {tag}")).cloned();
            return known.ok_or_else(|| Error::Bad(format!("struct {tag} is not declared before it is used")));
        }
        let mut fields = Vec::new();
        while !self.eat("}") {
            if self.peek().is_empty() {
                return bad(format!("struct {tag} is never closed"));
            }
            self.fields(&mut fields, depth)?;
        }
        self.lines.push(format!("type {tag} struct {{ {} }}", fields.join("; ")));
        self.types.insert(format!("struct {tag}"), tag.clone());
        self.last = Some(tag.clone());
        Ok(tag)
    }

    fn fields(&mut self, fields: &mut Vec<String>, depth: usize) -> Result<(), Error> {
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
            self.attributes()?;
            match self.next().as_str() {
                "," => {}
                ";" => return Ok(()),
                ":" => return unsupported(format!("{name} is a bit field")),
                other => return bad(format!("{other:?} stands behind the field {name}")),
            }
        }
    }

    fn attributes(&mut self) -> Result<(), Error> {
        while matches!(self.peek(), "__attribute__" | "_Alignas" | "alignas" | "__attribute") {
            self.at += 1;
            let mut open = 0usize;
            loop {
                match self.next().as_str() {
                    "(" => open += 1,
                    ")" if open <= 1 => break,
                    ")" => open -= 1,
                    "" => return bad("an attribute is never closed"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// A type, up to the name that follows it.
    fn kind(&mut self, depth: usize) -> Result<String, Error> {
        let mut basic: Vec<String> = Vec::new();
        loop {
            let word = self.peek().to_owned();
            match word.as_str() {
                "const" | "volatile" | "static" | "extern" | "inline" => self.at += 1,
                "__attribute__" | "_Alignas" | "alignas" => self.attributes()?,
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
