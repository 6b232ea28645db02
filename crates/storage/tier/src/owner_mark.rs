//! The mark of the store's directory that uses a target on a service.
//!
//! A store that is made again from a bucket has the id of the lost one, and names the same blobs. The mark tells the two directories apart, so
//! that the lost one changes nothing if it comes back.

/// The file of a store's directory with its mark.
pub const OWNER_FILE: &str = "owner";
/// The blob with the mark of the directory that uses the target.
pub const OWNER_BLOB: &str = "terrace-owner";

/// The mark of a store's directory, as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerMark(String);

impl OwnerMark {
    /// The mark of a new directory on `host`. It takes the place of the directory with the mark `before`, and of those before that.
    pub fn new(host: &str, number: u64, before: Option<&OwnerMark>) -> OwnerMark {
        let mut text = format!("host {host}\nowner {number:016x}\n");
        let numbers = before.into_iter().flat_map(|mark| mark.values("owner").chain(mark.values("before")));
        numbers.for_each(|number| text.push_str(&format!("before {number}\n")));
        OwnerMark(text)
    }

    /// The mark with these bytes, which may be damaged: then it is that of no directory.
    pub fn read(bytes: &[u8]) -> OwnerMark {
        OwnerMark(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    /// The machine of the directory.
    pub fn host(&self) -> &str {
        self.values("host").next().unwrap_or("another machine")
    }

    /// Returns whether it was written to its end.
    pub fn is_whole(&self) -> bool {
        self.values("owner").any(|number| number.len() == 16) && self.0.ends_with('\n')
    }

    /// Returns whether this directory may replace a mark that was found: one of a directory in whose place it is, or its own one that was not
    /// written to its end.
    pub fn may_replace(&self, found: &OwnerMark) -> bool {
        let is_cut = found.0.len() < self.0.len() && self.0.starts_with(&found.0);
        is_cut || found.values("owner").any(|number| self.values("before").any(|before| before == number))
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_replaces_the_marks_of_those_before_it_only() {
        let first = OwnerMark::new("a", 1, None);
        let second = OwnerMark::new("b", 2, Some(&first));
        let third = OwnerMark::new("c", 3, Some(&second));
        assert!(third.may_replace(&first) && third.may_replace(&second) && second.may_replace(&first));
        assert!(!first.may_replace(&second) && !second.may_replace(&third) && !second.may_replace(&second));
        let other = OwnerMark::new("a", 4, None);
        assert!(!third.may_replace(&other) && !other.may_replace(&third));
        let text = third.bytes();
        for end in 0..text.len() {
            let cut = OwnerMark::read(&text[..end]);
            assert!(third.may_replace(&cut), "its own, cut at {end}");
            assert!(!other.may_replace(&cut) || end <= "host ".len(), "another's, cut at {end}");
        }
        assert_eq!((OwnerMark::read(&text), third.host()), (third.clone(), "c"));
        assert!(third.is_whole() && !OwnerMark::read(b"host a\nowner 00").is_whole());
    }
}
