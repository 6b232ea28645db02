//! The chunks of a dataset: a B-tree of version 1.

use super::super::window::Window;
use super::super::{MAX_ENTRIES_PER_WINDOW, Span};
use super::{Tree, Widths};

/// At most this many nodes of a window are examined.
const MAX_NODES_PER_WINDOW: usize = 4096;

/// Returns the chunks that the window describes, and the nodes in later windows.
pub fn chunks(window: Window, mut nodes: Vec<Tree>, widths: Widths) -> (Vec<Span>, Vec<Tree>) {
    let (mut chunks, mut later, mut seen) = (Vec::new(), Vec::new(), 0);
    while let Some(tree) = nodes.pop() {
        seen += 1;
        if seen > MAX_NODES_PER_WINDOW || chunks.len() > MAX_ENTRIES_PER_WINDOW {
            break;
        }
        if tree.address >= window.end() {
            later.push(tree);
            continue;
        }
        // The entries before the end of a truncated node are valid.
        let _ = node(window, tree, widths, &mut chunks, &mut nodes);
    }
    (chunks, later)
}

fn node(window: Window, tree: Tree, widths: Widths, chunks: &mut Vec<Span>, nodes: &mut Vec<Tree>) -> Option<()> {
    let mut fields = window.at(tree.address)?;
    (fields.take(5)? == b"TREE\x01").then_some(())?;
    let level = fields.byte()?;
    let entries = fields.little(2)?;
    fields.skip(2 * widths.address)?;
    for _ in 0..entries {
        let length = fields.little(4)?;
        fields.skip(4 + 8 * tree.dimensions)?;
        let address = fields.little(widths.address)?;
        if level == 0 {
            chunks.extend(Span::new(address, length, tree.content));
        } else if nodes.len() < MAX_ENTRIES_PER_WINDOW {
            nodes.push(Tree { address, ..tree });
        }
    }
    Some(())
}
