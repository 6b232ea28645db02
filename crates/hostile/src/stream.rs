//! Streams: framed requests, and the windows of producers.

use terrace_stream::{Framed, Frames, Name, Origin, Place, Request, Window};

pub fn samples() -> Vec<Vec<u8>> {
    let framed = |number: u64| {
        let destination: Name = format!("folder/file {number}").into_bytes().as_slice().into();
        let place = if number.is_multiple_of(2) { Place::Append } else { Place::At(number << 20) };
        let origin = Origin { producer: b"producer".as_slice().into(), sequence: number + 1 };
        let bytes = vec![number as u8; 100 * number as usize].into();
        Framed {
            request: Request { destination, place, bytes, ends: number == 3 },
            origin: (number < 4).then_some(origin),
        }
    };
    let mut frames = Vec::new();
    for number in 0..6 {
        // A request that is not allowed would be missing, and the test misses it.
        let _ = framed(number).encode(&mut frames);
    }
    vec![frames, b"17+19,20,25".to_vec(), b"18446744073709551615".to_vec()]
}

pub fn parse(input: &[u8]) -> bool {
    let mut window = Window::default();
    let mut are_valid = true;
    for framed in Frames::new(input) {
        let Ok(framed) = framed else {
            are_valid = false;
            break;
        };
        assert!(framed.encode(&mut Vec::new()).is_ok(), "what was read can be written");
        if let Some(origin) = framed.origin {
            window.add(origin.sequence);
        }
    }
    let other = std::str::from_utf8(input).ok().and_then(Window::parse);
    let is_window = other.is_some();
    if let Some(mut other) = other {
        other.merge(&window);
        window.merge(&other);
        for sequence in [0, 18, u64::MAX] {
            window.add(sequence);
            let _ = (window.contains(sequence), window.reaches(sequence));
        }
    }
    are_valid || is_window
}
