//! Files that are read as HDF5: a head that says what is where, and behind it the bytes as they lie in any other file.

mod datatype;
mod head;
mod lookup3;

pub use head::{Group, head};

use super::Layout;
use crate::model::{Misfit, View};

/// The layout of a replica's views as that of an HDF5 file: the variables of a single view are in its root, those of several in a
/// group for each.
pub(super) fn behind_head(layout: Layout, views: &[&View]) -> Result<Layout, Misfit> {
    let length = match layout.files[..] {
        [length] => length,
        _ => return Err(Misfit::NoHdf5("the length of one of its arrays varies".to_owned())),
    };
    let mut groups = Vec::new();
    let mut first = 0;
    for view in views {
        let variables = layout.describe(view, first).ok_or_else(|| {
            let reason = format!("its view `{}` lies in tiles, in blocks or along a curve", view.name);
            Misfit::NoHdf5(reason)
        })?;
        first += variables.len();
        let name = if views.len() == 1 { String::new() } else { view.name.clone() };
        groups.push(Group { name, variables });
    }
    layout.behind(head(&groups, length)?)
}
