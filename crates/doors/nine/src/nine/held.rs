//! [`Held`]: a number of the tree that stays valid.

use std::sync::Arc;

use terrace_tree::{Node, Tree};

/// A number of the tree, held while this value lives.
pub struct Held {
    tree: Arc<Tree>,
    number: u64,
}

impl Held {
    /// Holds a number that was looked up.
    pub fn of(tree: &Arc<Tree>, node: &Node) -> Held {
        Held { tree: tree.clone(), number: node.number }
    }

    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.tree.hold(self.number);
        Held { tree: self.tree.clone(), number: self.number }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tree.forget(self.number, 1);
    }
}
