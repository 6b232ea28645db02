//! Formats replicas.

use super::{Printer, names};
use crate::language::Span;
use crate::language::ast::{Consistency, Replica, ReplicaLine};

impl Printer<'_> {
    pub(super) fn replica(&mut self, replica: &Replica, span: Span) {
        let file = replica.file.as_ref().map(|file| format!(" \"{file}\"")).unwrap_or_default();
        let complete = if replica.complete { " complete" } else { "" };
        self.line(span.start, &format!("replica {}{file}{complete} {{", replica.name.text));
        self.inner(span.end, |p| {
            for line in &replica.lines {
                p.line(line.span.start, &text(&line.what));
            }
        });
        self.raw("}\n");
    }
}

fn text(line: &ReplicaLine) -> String {
    match line {
        ReplicaLine::View(name) => format!("view {}", name.text),
        ReplicaLine::Consistency(when, atomic) => {
            format!("consistency {}{}", consistency(*when), if *atomic { " atomic" } else { "" })
        }
        ReplicaLine::Tier(list) => format!("tier {}", names(list)),
        ReplicaLine::Codec(name) => format!("codec \"{name}\""),
        ReplicaLine::Requirement(list) => format!("requirement {}", names(list)),
        ReplicaLine::Backend(name) => format!("backend {}", name.text),
    }
}

fn consistency(when: Consistency) -> String {
    match when {
        Consistency::Sync => "sync".to_owned(),
        Consistency::OnClose => "on-close".to_owned(),
        Consistency::Async(None) => "async".to_owned(),
        Consistency::Async(Some(ms)) if ms % 1000 == 0 => format!("async {}s", ms / 1000),
        Consistency::Async(Some(ms)) => format!("async {ms}ms"),
    }
}
