//! Patterns of names: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a byte that stands for itself.

/// Returns whether a name matches a pattern. The time is at most the product of their lengths.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The position behind the last star, and where the name continues if the star takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, in_name));
                at += 1;
                continue;
            }
            None if in_name == name.len() => return true,
            None => None,
            Some(_) => name.get(in_name).and_then(|byte| match_one(&pattern[at..], *byte)),
        };
        match (matched, star) {
            (Some(length), _) => {
                at += length;
                in_name += 1;
            }
            (None, Some((behind, from))) if from < name.len() => {
                star = Some((behind, from + 1));
                (at, in_name) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// Returns the length of the first element of a pattern if it matches the byte.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (is_in, length) = match_class(class, byte);
            is_in.then_some(length + 1)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Returns whether a class, without its `[`, has the byte; and its length. A class that is not closed ends with the pattern.
fn match_class(class: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match class[at..] {
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                is_in |= literal == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                is_in |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                is_in |= literal == byte;
                at += 1;
            }
            [] => break,
        }
    }
    (is_in != is_negated, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_match_as_those_of_redis() {
        for (pattern, name) in [
            ("*", ""),
            ("foo*", "foo_a"),
            ("*a*b", "xaab"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("a\\*", "a*"),
            ("[\\]]", "]"),
            ("a[b", "ab"),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("foo*", "fo"), ("h?llo", "hllo"), ("h[^e]llo", "hello"), ("a\\*", "ab"), ("[^x]", "")]
        {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    /// Redis 7.0 takes exponential time for it.
    #[test]
    fn many_stars_take_little_time() {
        let pattern = ["a*".repeat(200), "c".into()].concat();
        assert!(!matches(pattern.as_bytes(), &b"ab".repeat(2_000)));
    }

    proptest! {
        #[test]
        fn any_pattern_ends(pattern in "[a-c*?\\[\\]^\\\\-]{0,12}", name in "[a-c\\]]{0,12}") {
            matches(pattern.as_bytes(), name.as_bytes());
        }
    }
}
