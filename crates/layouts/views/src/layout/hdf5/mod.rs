//! Files that HDF5 libraries can read: a head that describes the variables, followed by the same bytes as in any other
//! replica.

mod attribute;
mod datatype;
mod head;
mod heap;
mod lookup3;
mod scales;

pub use head::{Content, Group, head};

use super::Layout;
use crate::model::{Dataset, Misfit, View};

/// Converts the layout of a replica's views to an HDF5 file. The root contains the variables of a single view; several
/// views have a group each.
pub(super) fn behind_head(layout: Layout, views: &[&View], dataset: &Dataset) -> Result<Layout, Misfit> {
    let length = match layout.files[..] {
        [length] => length,
        _ => return Err(Misfit::NoHdf5("the length of one of its arrays varies".to_owned())),
    };
    let mut groups = Vec::new();
    let mut first = 0;
    for view in views {
        let variables = layout.describe(view, first, dataset).ok_or_else(|| {
            let reason = format!("its view `{}` lies in tiles, in blocks or along a curve", view.name);
            Misfit::NoHdf5(reason)
        })?;
        first += variables.len();
        let name = if views.len() == 1 { String::new() } else { view.name.clone() };
        groups.push(Group { name, variables });
    }
    // Files of before exports named dimensions have to keep their heads, as the bytes behind are where they were.
    let content = Content { attributes: dataset.attributes.clone(), groups, has_scales: false };
    layout.behind(head(&content, length)?)
}
