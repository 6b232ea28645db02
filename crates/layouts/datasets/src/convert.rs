//! Conversion of a file from one view to another, without a store.

use std::io;

use terrace_views::convert::{Gathered, Plan, Touched};
use terrace_views::layout::{Layout, of_view};
use terrace_views::model::Sizes;

use crate::touch::find_touched_parts;
use crate::{Declared, Error, Result};

const CONVERT_STEP_BYTES: u64 = 4 << 20;
const READ_GAP_BYTES: u64 = 64 << 10;

/// Converts the bytes of one view into those of another in bounded memory, and returns the number of bytes written.
/// `read` fills a buffer from the given offset; `write` receives the output bytes in order.
///
/// # Errors
/// [`Error::Refused`] if a view does not exist, if `from` lacks bytes that `to` shows, or if `read` or `write` fails.
pub fn convert(
    declared: &Declared,
    sizes: &Sizes,
    from: &str,
    to: &str,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64> {
    let model = &declared.model;
    let find = |name: &str| {
        let number = model.views.iter().position(|view| view.name == name).ok_or_else(|| {
            let known = model.views.iter().map(|view| view.name.as_str()).collect::<Vec<_>>().join(", ");
            Error::Refused(format!("the declaration has no view {name:?}; it has {known}"))
        })?;
        let layout = model.views.get(number).map(|view| of_view(view, &model.dataset, sizes));
        let layout = layout.unwrap_or_else(|| Ok(Layout::default()));
        let layout = layout.map_err(|misfit| Error::Refused(format!("the view {name:?}: {misfit}")))?;
        Ok::<_, Error>((number, layout))
    };
    let ((source, old), (wanted, new)) = (find(from)?, find(to)?);
    let shown = model.views.get(wanted).is_some_and(|view| model.shown_in(view, source));
    if !shown || !old.is_regular() {
        return Err(Error::Refused(format!("the view {from:?} has not all that {to:?} shows")));
    }
    let plan = Plan::converting(&new, &old);
    let mut out = vec![0; CONVERT_STEP_BYTES.min(plan.length()) as usize];
    let failed = |error: io::Error| Error::Refused(error.to_string());
    let mut at = 0;
    while at < plan.length() {
        let length = CONVERT_STEP_BYTES.min(plan.length() - at);
        let piece = out.get_mut(..length as usize).unwrap_or_default();
        match plan.straight(at, length) {
            Some((_, place)) => read(place, piece).map_err(failed)?,
            None => {
                let mut parts = Gathered::new(find_touched_parts(&plan, at, length, READ_GAP_BYTES)?);
                parts.fill(|part: &Touched, into| read(part.bytes.start, into)).map_err(failed)?;
                plan.read_gathered(at, piece, &parts)?;
            }
        }
        write(piece).map_err(failed)?;
        at += length;
    }
    Ok(at)
}
