//! Places variables one after another.

use super::arrange::{Digit, arrange, times};
use super::hdf5::behind_head;
use super::{Extent, Layout, Placed, Walk};
use crate::model::{
    Arrangement, Backend, Dataset, Length, Misfit, Node, Packing, Replica, Sizes, Style, View, ViewVariable,
};

/// Returns the layout of a view's file.
///
/// # Errors
/// [`Misfit`] if a slice leaves its array, or if the file is too large.
pub fn of_view(view: &View, dataset: &Dataset, sizes: &Sizes) -> Result<Layout, Misfit> {
    let mut builder =
        LayoutBuilder { dataset, sizes, layout: Layout { files: vec![0], ..Layout::default() }, split: false };
    builder.view(view, "")?;
    Ok(builder.layout)
}

/// Returns the layout of a replica's files (III-B of the paper): views at multiples of 8, and a new file after each
/// variable whose size varies. The head of an HDF5 file precedes everything.
///
/// # Errors
/// [`Misfit`] if a slice leaves its array, if a file is too large, or if HDF5 cannot express the layout.
pub fn of_replica(replica: &Replica, views: &[View], dataset: &Dataset, sizes: &Sizes) -> Result<Layout, Misfit> {
    let mut builder =
        LayoutBuilder { dataset, sizes, layout: Layout { files: vec![0], ..Layout::default() }, split: true };
    let views: Vec<&View> = replica.views.iter().filter_map(|number| views.get(*number)).chain(&replica.rest).collect();
    for view in &views {
        let prefix = if view.name.is_empty() { String::new() } else { format!("{}/", view.name) };
        builder.view(view, &prefix)?;
    }
    match replica.backend {
        Backend::Raw => Ok(builder.layout),
        Backend::Hdf5 => behind_head(builder.layout, &views, dataset),
    }
}

struct LayoutBuilder<'a> {
    dataset: &'a Dataset,
    sizes: &'a Sizes,
    layout: Layout,
    split: bool,
}

/// The values that all parts of one variable share.
struct Variable<'a> {
    dataset: &'a Dataset,
    style: &'a Style,
    lengths: Vec<u64>,
    number: usize,
    file: usize,
}

/// A size and an alignment in bytes.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    align: u64,
}

fn up(offset: u64, align: u64) -> Result<u64, Misfit> {
    offset.checked_next_multiple_of(align.max(1)).filter(|o| *o <= i64::MAX as u64).ok_or(Misfit::TooLarge)
}

fn plus(a: u64, b: u64) -> Result<u64, Misfit> {
    a.checked_add(b).filter(|sum| *sum <= i64::MAX as u64).ok_or(Misfit::TooLarge)
}

impl LayoutBuilder<'_> {
    fn view(&mut self, view: &View, prefix: &str) -> Result<(), Misfit> {
        let mut start = up(self.layout.files.last().copied().unwrap_or(0), 8)?;
        for variable in &view.variables {
            let file = self.layout.files.len() - 1;
            let end = self.layout.files.last().copied().unwrap_or(0).max(start);
            let number = self.layout.variables.len();
            let lengths = variable.lengths(self.dataset, self.sizes)?;
            let place = Variable { dataset: self.dataset, style: &view.style, lengths, number, file };
            let size = place.size(&variable.node)?;
            // Alignment is relative to the start of the view, so that its bytes are the same at any offset.
            let offset = start + up(end - start, size.align.max(view.style.align))?;
            let name = format!("{prefix}{}", variable.name);
            place.put(&variable.node, &name, offset, &mut Vec::new(), &mut self.layout.leaves)?;
            let end = plus(offset, size.bytes)?;
            if let Some(last) = self.layout.files.last_mut() {
                *last = end;
            }
            self.layout.variables.push(Extent { name, file, offset, size: size.bytes });
            if self.split && self.varies(variable) {
                self.layout.files.push(0);
                start = 0;
            }
        }
        Ok(())
    }

    fn varies(&self, variable: &ViewVariable) -> bool {
        let lengths = |leaf: usize| self.dataset.leaves.get(leaf).map_or(&[][..], |leaf| &leaf.lengths);
        variable.node.leaves().iter().any(|seen| {
            let dimensions = seen.index.iter().zip(lengths(seen.leaf));
            dimensions.into_iter().any(|(affine, length)| {
                let moving = |l: &(usize, i64)| variable.loops.get(l.0).is_some_and(|l| l.bound.is_none());
                matches!(length, Length::Variable(_)) && affine.terms.iter().any(moving)
            })
        })
    }
}

impl Variable<'_> {
    fn size(&self, node: &Node) -> Result<Size, Misfit> {
        match node {
            Node::Leaf(seen) => {
                let Some(leaf) = self.dataset.leaves.get(seen.leaf) else { return Ok(Size { bytes: 0, align: 1 }) };
                let (bytes, align) = (leaf.primitive.size(), leaf.primitive.alignment());
                Ok(match self.style.packing {
                    Packing::Packed => Size { bytes, align: 1 },
                    Packing::Paper => Size { bytes, align },
                    // In C, a text is a struct of its length and its bytes.
                    Packing::Aligned => Size { bytes: up(bytes, align)?, align },
                })
            }
            Node::Struct(members) => {
                let mut all = Size { bytes: 0, align: 1 };
                for (i, (_, member)) in members.iter().enumerate() {
                    let size = self.size(member)?;
                    if self.style.packing == Packing::Aligned {
                        all.bytes = up(all.bytes, size.align)?;
                        all.align = all.align.max(size.align);
                    } else if i == 0 {
                        all.align = size.align;
                    }
                    all.bytes = plus(all.bytes, size.bytes)?;
                }
                if self.style.packing == Packing::Aligned {
                    all.bytes = up(all.bytes, all.align)?;
                }
                Ok(all)
            }
            Node::Array(loops, element) => {
                let size = self.size(element)?;
                let (_, bytes) = match self.block(element) {
                    Some(block) => self.blocks(loops, self.flat(element)?, block)?,
                    None => self.strides(loops, size.bytes)?,
                };
                Ok(Size { bytes, align: size.align })
            }
        }
    }

    /// Returns the size of a node without padding.
    fn flat(&self, node: &Node) -> Result<u64, Misfit> {
        match node {
            Node::Struct(members) => members.iter().try_fold(0, |sum, (_, member)| plus(sum, self.flat(member)?)),
            other => Ok(self.size(other)?.bytes),
        }
    }

    /// Returns the number of elements of a block if this array is stored in blocks.
    fn block(&self, element: &Node) -> Option<u64> {
        match (&self.style.arrangement, element) {
            (Arrangement::Blocked(length), Node::Struct(_)) => Some(*length),
            _ => None,
        }
    }

    /// Returns the lengths of loops, fastest first.
    fn fastest_first(&self, loops: &[usize]) -> Vec<(usize, u64)> {
        let mut all: Vec<(usize, u64)> =
            loops.iter().map(|l| (*l, self.lengths.get(*l).copied().unwrap_or(0))).collect();
        if !self.style.row_minor {
            all.reverse();
        }
        all
    }

    fn strides(&self, loops: &[usize], size: u64) -> Result<(Vec<Walk>, u64), Misfit> {
        let order = self.fastest_first(loops);
        let lengths: Vec<u64> = order.iter().map(|(_, length)| *length).collect();
        let (digits, bytes) = arrange(&lengths, size, &self.style.arrangement, !self.style.row_minor)?;
        let walks = order.iter().zip(digits).map(|(&(number, length), digits)| Walk { number, length, digits });
        Ok((walks.rev().collect(), bytes))
    }

    /// Like [`Self::strides`], for blocks: the fastest loop gets a digit within the block, whose stride stays 0.
    fn blocks(&self, loops: &[usize], flat: u64, block: u64) -> Result<(Vec<Walk>, u64), Misfit> {
        let mut stride = times(flat, block)?;
        let mut walks = Vec::new();
        for (i, (number, length)) in self.fastest_first(loops).into_iter().enumerate() {
            let (weight, count) = if i == 0 { (block, length.div_ceil(block)) } else { (1, length) };
            let mut digits = vec![Digit { weight, count, stride }];
            if i == 0 {
                digits.push(Digit { weight: 1, count: block, stride: 0 });
            }
            stride = times(stride, count)?;
            walks.push(Walk { number, length, digits });
        }
        walks.reverse();
        Ok((walks, stride))
    }

    /// Places a node and its descendants.
    fn put(
        &self,
        node: &Node,
        path: &str,
        offset: u64,
        around: &mut Vec<Walk>,
        out: &mut Vec<Placed>,
    ) -> Result<(), Misfit> {
        match node {
            Node::Leaf(seen) => {
                let Some(leaf) = self.dataset.leaves.get(seen.leaf) else { return Ok(()) };
                out.push(Placed {
                    variable: self.number,
                    leaf: seen.leaf,
                    path: path.to_owned(),
                    primitive: leaf.primitive,
                    big: self.style.big,
                    file: self.file,
                    offset,
                    index: seen.index.clone(),
                    loops: around.clone(),
                });
            }
            Node::Struct(members) => {
                let mut at = offset;
                for (name, member) in members {
                    let size = self.size(member)?;
                    if self.style.packing == Packing::Aligned {
                        at = offset + up(at - offset, size.align)?;
                    }
                    self.put(member, &format!("{path}.{name}"), at, around, out)?;
                    at = plus(at, size.bytes)?;
                }
            }
            Node::Array(loops, element) => {
                let before = around.len();
                if let Some(block) = self.block(element) {
                    let (walks, _) = self.blocks(loops, self.flat(element)?, block)?;
                    around.extend(walks);
                    // The fastest loop is the innermost. Its last digit is the one within the block.
                    let inner = around.len() - 1;
                    self.put_block(element, path, offset, (inner, block), around, out)?;
                } else {
                    let (walks, _) = self.strides(loops, self.size(element)?.bytes)?;
                    around.extend(walks);
                    self.put(element, path, offset, around, out)?;
                }
                around.truncate(before);
            }
        }
        Ok(())
    }

    /// Places the fields of a block, each as an array of its own. Returns their size.
    fn put_block(
        &self,
        node: &Node,
        path: &str,
        offset: u64,
        block: (usize, u64),
        around: &mut Vec<Walk>,
        out: &mut Vec<Placed>,
    ) -> Result<u64, Misfit> {
        if let Node::Struct(members) = node {
            let mut at = offset;
            for (name, member) in members {
                at = plus(at, self.put_block(member, &format!("{path}.{name}"), at, block, around, out)?)?;
            }
            return Ok(at - offset);
        }
        let size = self.size(node)?.bytes;
        if let Some(digit) = around.get_mut(block.0).and_then(|walk| walk.digits.last_mut()) {
            digit.stride = size;
        }
        self.put(node, path, offset, around, out)?;
        times(size, block.1)
    }
}
