//! The decoder of messages between clients and their node, for tests with hostile bytes.

use std::time::Duration;

use terrace_catalog::{Change, Verdict};

use crate::clients::wire::{Answer, Failure, PROTOCOL_VERSION, Request, receive, send};

/// Valid messages of each kind, in both directions.
pub fn sample_messages() -> Vec<Vec<u8>> {
    let patience = Duration::from_millis(1500);
    let change = || Change { expect: Vec::new(), edits: Vec::new() };
    let requests = [
        Request::Hello { version: PROTOCOL_VERSION, store: 7 },
        Request::Begin { patience },
        Request::Change { session: 3, first: 1, changes: vec![change(), change()], patience },
        Request::End { session: 3 },
        Request::CatchUp { patience },
        Request::Claim { count: 1000, patience },
    ];
    let answers = [
        Answer::Welcome,
        Answer::Begun { session: 3 },
        Answer::Decided(vec![Verdict::Done(77), Verdict::Conflict, Verdict::Stale]),
        Answer::CaughtUp,
        Answer::Claimed { first: 1 << 40 },
        Answer::Failed(Failure::Refused { reason: "no".into() }),
    ];
    let encoded = |send: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut bytes = Vec::new();
        send(&mut bytes).map(|()| bytes)
    };
    let requests = requests.iter().map(|request| encoded(&|to| send(to, &mut Vec::new(), request)));
    let answers = answers.iter().map(|answer| encoded(&|to| send(to, &mut Vec::new(), answer)));
    requests.chain(answers).flatten().collect()
}

/// Receives the bytes as requests, and as answers. Returns whether they are whole messages.
pub fn parse_messages(bytes: &[u8]) -> bool {
    let mut buffer = Vec::new();
    let (mut requests, mut answers) = (bytes, bytes);
    while receive::<Request<Change>>(&mut requests, &mut buffer).is_ok() {}
    while receive::<Answer>(&mut answers, &mut buffer).is_ok() {}
    !bytes.is_empty() && (requests.is_empty() || answers.is_empty())
}
