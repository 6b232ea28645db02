//! [`Resp`]: replies, and their encoding in both versions of Redis's protocol and in that of memcached.

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The version that each connection begins with.
    #[default]
    Resp2,
    /// The version with types, which `HELLO 3` chooses.
    Resp3,
    /// The lines of memcached.
    Memcached,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Resp {
    /// A word such as `OK`.
    Status(&'static str),
    /// An error, which begins with its code.
    Error(String),
    /// A whole number.
    Number(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A number; bytes in RESP2.
    Double(f64),
    /// No value.
    Nil,
    /// No array; a null in RESP3.
    NilArray,
    /// A sequence.
    Array(Vec<Resp>),
    /// Keys and values; a flat array in RESP2.
    Map(Vec<(Resp, Resp)>),
    /// Different values; an array in RESP2.
    Set(Vec<Resp>),
    /// A message that no request asked for; an array in RESP2.
    Push(Vec<Resp>),
    /// Text for people; bytes in RESP2.
    Text(String),
    /// Several replies to one request.
    Several(Vec<Resp>),
    /// Bytes of the protocol as they are.
    Plain(Vec<u8>),
}

impl Resp {
    /// The reply to a change that succeeded.
    pub const OK_REPLY: Resp = Resp::Status("OK");
    /// The reply to a request that asks for none.
    pub const NO_REPLY: Resp = Resp::Several(Vec::new());

    /// Whether it says that a request failed.
    pub fn is_error(&self) -> bool {
        match self {
            Resp::Error(_) => true,
            Resp::Status(line) => ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].iter().any(|word| line.starts_with(word)),
            _ => false,
        }
    }

    /// A reply with the bytes of a text.
    pub fn text(text: &str) -> Resp {
        Resp::Bulk(text.as_bytes().to_vec())
    }

    /// A reply with a count.
    pub fn count(count: usize) -> Resp {
        Resp::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// A reply with bytes, or none.
    pub fn bulk_or_nil(bytes: Option<Vec<u8>>) -> Resp {
        bytes.map_or(Resp::Nil, Resp::Bulk)
    }

    /// A sequence of bytes.
    pub fn bulks<B: Into<Vec<u8>>>(all: impl IntoIterator<Item = B>) -> Resp {
        Resp::Array(all.into_iter().map(|bytes| Resp::Bulk(bytes.into())).collect())
    }

    /// Appends the encoded reply to `out`.
    pub fn encode(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let is_typed = protocol == Protocol::Resp3;
        match self {
            Resp::Plain(bytes) => out.extend_from_slice(bytes),
            Resp::Status(status) if protocol == Protocol::Memcached => {
                out.extend_from_slice(status.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Resp::Error(text) if protocol == Protocol::Memcached => {
                let text = text.strip_prefix("ERR ").unwrap_or(text);
                out.extend_from_slice(format!("SERVER_ERROR {}\r\n", text.replace(['\r', '\n'], " ")).as_bytes());
            }
            Resp::Status(status) => line(out, b'+', status.as_bytes()),
            // A reader would take the rest of a text with line ends for another reply.
            Resp::Error(text) => line(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            Resp::Number(number) => line(out, b':', number.to_string().as_bytes()),
            Resp::Bulk(bytes) => bulk(out, bytes),
            Resp::Double(number) if is_typed => line(out, b',', format_double(*number).as_bytes()),
            Resp::Double(number) => bulk(out, format_double(*number).as_bytes()),
            Resp::Nil | Resp::NilArray if is_typed => out.extend_from_slice(b"_\r\n"),
            Resp::Nil => out.extend_from_slice(b"$-1\r\n"),
            Resp::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Resp::Array(all) => sequence(out, b'*', all, protocol),
            Resp::Set(all) => sequence(out, if is_typed { b'~' } else { b'*' }, all, protocol),
            Resp::Push(all) => sequence(out, if is_typed { b'>' } else { b'*' }, all, protocol),
            Resp::Map(pairs) => {
                match is_typed {
                    true => head(out, b'%', pairs.len()),
                    false => head(out, b'*', pairs.len() * 2),
                }
                for (key, value) in pairs {
                    key.encode(protocol, out);
                    value.encode(protocol, out);
                }
            }
            Resp::Text(text) if is_typed => {
                head(out, b'=', text.len() + 4);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Resp::Text(text) => bulk(out, text.as_bytes()),
            Resp::Several(all) => all.iter().for_each(|one| one.encode(protocol, out)),
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    line(out, kind, count.to_string().as_bytes());
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn sequence(out: &mut Vec<u8>, kind: u8, all: &[Resp], protocol: Protocol) {
    head(out, kind, all.len());
    all.iter().for_each(|one| one.encode(protocol, out));
}

/// Formats a number with 17 digits, as Redis 7.0 does (C's `%.17g`).
pub fn format_double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let text = format!("{number:.16e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    match exponent {
        -4..17 => trim(&format!("{number:.*}", usize::try_from(16 - exponent).unwrap_or_default())),
        ..-4 => format!("{}e-{:02}", trim(digits), -exponent),
        _ => format!("{}e+{exponent:02}", trim(digits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(reply: &Resp, protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        reply.encode(protocol, &mut out);
        out
    }

    /// The parser of the crate `redis` reads each kind of reply in both versions.
    #[test]
    fn a_client_understands_the_replies() {
        use redis::Value;
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let cases = [
            (Resp::OK_REPLY, Value::Okay, Value::Okay),
            (Resp::Number(-7), Value::Int(-7), Value::Int(-7)),
            (Resp::text("a\r\nb"), bulk("a\r\nb"), bulk("a\r\nb")),
            (Resp::Double(1.5), bulk("1.5"), Value::Double(1.5)),
            (Resp::Nil, Value::Nil, Value::Nil),
            (Resp::NilArray, Value::Nil, Value::Nil),
            (
                Resp::Map(vec![(Resp::text("a"), Resp::Number(1))]),
                Value::Array(vec![bulk("a"), Value::Int(1)]),
                Value::Map(vec![(bulk("a"), Value::Int(1))]),
            ),
            (Resp::Set(vec![Resp::Number(1)]), Value::Array(vec![Value::Int(1)]), Value::Set(vec![Value::Int(1)])),
        ];
        for (reply, second, third) in cases {
            for (protocol, expected) in [(Protocol::Resp2, second), (Protocol::Resp3, third)] {
                let found = redis::parse_redis_value(&encoded(&reply, protocol)).unwrap();
                assert_eq!(found, expected, "{reply:?} in {protocol:?}");
            }
        }
    }

    #[test]
    fn an_error_stays_one_line() {
        assert_eq!(encoded(&Resp::Error("ERR a\r\n+OK".into()), Protocol::Resp2), b"-ERR a  +OK\r\n");
    }

    #[test]
    fn numbers_look_as_those_of_redis() {
        for (number, text) in [
            (0.5, "0.5"),
            (0.1, "0.10000000000000001"),
            (0.0, "0"),
            (1e16, "10000000000000000"),
            (3.0, "3"),
            (-1e20, "-1e+20"),
            (2f64.powi(-30), "9.3132257461547852e-10"),
            (f64::INFINITY, "inf"),
            (17179869184.0, "17179869184"),
        ] {
            assert_eq!(format_double(number), text);
        }
    }
}
