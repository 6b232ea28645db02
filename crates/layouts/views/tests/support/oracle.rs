//! The meaning of each byte of a file, computed element by element from the language's reference alone.

use terrace_views::model::{
    Arrangement, Leaf, Length, Model, Node, Packing, Replica, Sizes, Style, View, ViewVariable,
};

/// A byte of an element: the leaf, the element's number in row-major order, and the byte in little-endian order.
pub type Origin = (usize, u64, u64);
/// The meaning of each byte of a file; `None` for padding.
pub type Image = Vec<Option<Origin>>;

/// A dataset's values: of each leaf what an element is that was never written, and the bytes of its elements in row-major
/// order.
pub struct Memory(Vec<(Vec<u8>, Vec<u8>)>);

impl Memory {
    /// Makes random values.
    pub fn random(r: &mut super::Random, model: &Model, sizes: &Sizes) -> Memory {
        let leaf = |leaf: &Leaf| {
            let count: u64 = leaf.lengths.iter().map(|length| length.at(sizes)).product();
            (unwritten(leaf), (0..count * leaf.primitive.size()).map(|_| r.next() as u8).collect())
        };
        Memory(model.dataset.leaves.iter().map(leaf).collect())
    }

    /// Makes the values of a dataset before anything is written.
    pub fn unwritten(model: &Model, sizes: &Sizes) -> Memory {
        let mut memory = Memory(model.dataset.leaves.iter().map(|leaf| (unwritten(leaf), Vec::new())).collect());
        memory.resize(model, sizes);
        memory
    }

    /// Resizes arrays. Only the outermost length may change.
    pub fn resize(&mut self, model: &Model, sizes: &Sizes) {
        for ((unwritten, bytes), leaf) in self.0.iter_mut().zip(&model.dataset.leaves) {
            let count: u64 = leaf.lengths.iter().map(|length| length.at(sizes)).product();
            let known = bytes.len() / unwritten.len();
            bytes.truncate(count as usize * unwritten.len());
            (known..count as usize).for_each(|_| bytes.extend(&*unwritten));
        }
    }

    fn byte(&mut self, (leaf, element, byte): Origin) -> &mut u8 {
        let (unwritten, bytes) = &mut self.0[leaf];
        &mut bytes[element as usize * unwritten.len() + byte as usize]
    }

    /// Returns a file's bytes.
    pub fn render(&mut self, image: &Image) -> Vec<u8> {
        image.iter().map(|origin| origin.map_or(0, |origin| *self.byte(origin))).collect()
    }

    /// Applies a write to a file. If an element is written twice, the last write wins.
    pub fn absorb(&mut self, image: &Image, offset: usize, bytes: &[u8]) {
        for (origin, byte) in image[offset..].iter().zip(bytes) {
            if let Some(origin) = origin {
                *self.byte(*origin) = *byte;
            }
        }
    }
}

fn unwritten(leaf: &Leaf) -> Vec<u8> {
    leaf.fill.clone().unwrap_or(vec![0; leaf.primitive.size() as usize])
}

/// Returns the image of a view's file.
pub fn view(view: &View, model: &Model, sizes: &Sizes) -> Image {
    images(&[view], model, sizes, false).remove(0)
}

/// Returns the images of a replica's files.
pub fn replica(replica: &Replica, model: &Model, sizes: &Sizes) -> Vec<Image> {
    let views: Vec<&View> = replica.views.iter().map(|i| &model.views[*i]).chain(&replica.rest).collect();
    images(&views, model, sizes, true)
}

fn images(views: &[&View], model: &Model, sizes: &Sizes, split: bool) -> Vec<Image> {
    let mut files = vec![Image::new()];
    for view in views {
        let mut start = files.last().unwrap().len().next_multiple_of(8);
        for variable in &view.variables {
            let lengths = variable.lengths(&model.dataset, sizes).unwrap();
            let one = One { model, sizes, style: &view.style, lengths };
            let (size, align) = one.size(&variable.node);
            let file = files.last_mut().unwrap();
            let at = start + (file.len().max(start) - start).next_multiple_of(align.max(view.style.align) as usize);
            file.resize(at + size as usize, None);
            one.put(&variable.node, at as u64, &mut vec![0; variable.loops.len()], file);
            if split && varies(variable, model) {
                files.push(Image::new());
                start = 0;
            }
        }
    }
    files
}

fn varies(variable: &ViewVariable, model: &Model) -> bool {
    let free = |l: usize| variable.loops[l].bound.is_none();
    variable.node.leaves().iter().any(|seen| {
        let lengths = &model.dataset.leaves[seen.leaf].lengths;
        seen.index
            .iter()
            .zip(lengths)
            .any(|(i, l)| matches!(l, Length::Variable(_)) && i.terms.iter().any(|(l, _)| free(*l)))
    })
}

struct One<'a> {
    model: &'a Model,
    sizes: &'a Sizes,
    style: &'a Style,
    lengths: Vec<u64>,
}

impl One<'_> {
    fn size(&self, node: &Node) -> (u64, u64) {
        match node {
            Node::Leaf(seen) => {
                let primitive = self.model.dataset.leaves[seen.leaf].primitive;
                let (size, align) = (primitive.size(), primitive.alignment());
                match self.style.packing {
                    Packing::Packed => (size, 1),
                    Packing::Paper => (size, align),
                    Packing::Aligned => (size.next_multiple_of(align), align),
                }
            }
            Node::Struct(members) => {
                let sizes: Vec<(u64, u64)> = members.iter().map(|(_, m)| self.size(m)).collect();
                if self.style.packing != Packing::Aligned {
                    return (sizes.iter().map(|s| s.0).sum(), sizes[0].1);
                }
                let align = sizes.iter().map(|s| s.1).max().unwrap();
                let end = sizes.iter().fold(0u64, |at, (size, align)| at.next_multiple_of(*align) + size);
                (end.next_multiple_of(align), align)
            }
            Node::Array(loops, element) => {
                let (size, align) = self.size(element);
                (self.cells(loops, element) * if self.blocked(element) { self.flat(element) } else { size }, align)
            }
        }
    }

    fn blocked(&self, element: &Node) -> bool {
        matches!((&self.style.arrangement, element), (Arrangement::Blocked(_), Node::Struct(_)))
    }

    fn flat(&self, node: &Node) -> u64 {
        match node {
            Node::Struct(members) => members.iter().map(|(_, m)| self.flat(m)).sum(),
            other => self.size(other).0,
        }
    }

    /// Returns the lengths in storage order, the slowest first, and the tile.
    fn grid(&self, loops: &[usize]) -> (Vec<u64>, Option<Vec<u64>>) {
        let mut lengths: Vec<u64> = loops.iter().map(|l| self.lengths[*l]).collect();
        let mut tile = match &self.style.arrangement {
            Arrangement::Tiled(shape) if shape.len() == loops.len() => Some(shape.clone()),
            Arrangement::Tiled(shape) if shape.len() == 1 => Some(vec![shape[0]; loops.len()]),
            _ => None,
        };
        if self.style.row_minor {
            lengths.reverse();
            tile.iter_mut().for_each(|t| t.reverse());
        }
        (lengths, tile)
    }

    /// Returns the number of cells of an array, including padding.
    fn cells(&self, loops: &[usize], element: &Node) -> u64 {
        let (mut lengths, tile) = self.grid(loops);
        if lengths.contains(&0) {
            return 0;
        }
        if self.blocked(element) {
            let Arrangement::Blocked(block) = self.style.arrangement else { unreachable!() };
            let last = lengths.last_mut().unwrap();
            *last = last.next_multiple_of(block);
        } else if let Some(tile) = tile {
            lengths.iter_mut().zip(tile).for_each(|(length, tile)| *length = length.next_multiple_of(tile));
        } else if self.style.arrangement == Arrangement::ZOrder && lengths.len() > 1 {
            lengths.iter_mut().for_each(|length| *length = length.next_power_of_two());
        }
        lengths.iter().product()
    }

    /// Returns the number of an element's cell.
    fn cell(&self, loops: &[usize], values: &[u64]) -> u64 {
        let (lengths, tile) = self.grid(loops);
        let mut at: Vec<u64> = loops.iter().map(|l| values[*l]).collect();
        if self.style.row_minor {
            at.reverse();
        }
        let row_major = |at: &[u64], lengths: &[u64]| at.iter().zip(lengths).fold(0, |cell, (x, n)| cell * n + x);
        if let Some(tile) = tile {
            let tiles: Vec<u64> = lengths.iter().zip(&tile).map(|(n, t)| n.div_ceil(*t)).collect();
            let number: Vec<u64> = at.iter().zip(&tile).map(|(x, t)| x / t).collect();
            let within: Vec<u64> = at.iter().zip(&tile).map(|(x, t)| x % t).collect();
            return row_major(&number, &tiles) * tile.iter().product::<u64>() + row_major(&within, &tile);
        }
        if self.style.arrangement == Arrangement::ZOrder && at.len() > 1 {
            let (mut cell, mut place) = (0, 0);
            for bit in 0..16 {
                for (x, n) in at.iter().zip(&lengths).rev() {
                    if n.next_power_of_two() > 1 << bit {
                        cell |= (x >> bit & 1) << place;
                        place += 1;
                    }
                }
            }
            return cell;
        }
        row_major(&at, &lengths)
    }

    fn put(&self, node: &Node, at: u64, values: &mut Vec<u64>, file: &mut Image) {
        match node {
            Node::Leaf(seen) => {
                let leaf = &self.model.dataset.leaves[seen.leaf];
                let mut element = 0i64;
                for (affine, length) in seen.index.iter().zip(&leaf.lengths) {
                    let index = affine.terms.iter().fold(affine.constant, |sum, (l, c)| sum + c * values[*l] as i64);
                    let length = length.at(self.sizes) as i64;
                    assert!((0..length).contains(&index));
                    element = element * length + index;
                }
                for part in leaf.primitive.parts() {
                    for byte in 0..part.size {
                        let swapped = byte / part.unit * part.unit + (part.unit - 1 - byte % part.unit);
                        let origin = part.offset + if self.style.big { swapped } else { byte };
                        file[(at + part.offset + byte) as usize] = Some((seen.leaf, element as u64, origin));
                    }
                }
            }
            Node::Struct(members) => {
                let mut at = at;
                let start = at;
                for (_, member) in members {
                    let (size, align) = self.size(member);
                    if self.style.packing == Packing::Aligned {
                        at = start + (at - start).next_multiple_of(align);
                    }
                    self.put(member, at, values, file);
                    at += size;
                }
            }
            Node::Array(loops, element) => self.array(loops, element, at, values, file),
        }
    }

    fn array(&self, loops: &[usize], element: &Node, at: u64, values: &mut Vec<u64>, file: &mut Image) {
        let total: u64 = loops.iter().map(|l| self.lengths[*l]).product();
        for number in 0..total {
            let mut left = number;
            for l in loops.iter().rev() {
                values[*l] = left % self.lengths[*l];
                left /= self.lengths[*l];
            }
            let cell = self.cell(loops, values);
            if !self.blocked(element) {
                self.put(element, at + cell * self.size(element).0, values, file);
                continue;
            }
            let Arrangement::Blocked(block) = self.style.arrangement else { unreachable!() };
            // Cells are counted as if the length of each row were a multiple of the block.
            let (lengths, _) = self.grid(loops);
            let fast = *lengths.last().unwrap();
            let (row, x) = (cell / fast, cell % fast);
            let start = (row * fast.div_ceil(block) + x / block) * block * self.flat(element);
            self.block(element, at + start, block, x % block, values, file);
        }
    }

    /// Places one element of a block, with each of its fields in the field's own array.
    fn block(&self, node: &Node, at: u64, block: u64, x: u64, values: &mut Vec<u64>, file: &mut Image) {
        if let Node::Struct(members) = node {
            let mut at = at;
            for (_, member) in members {
                self.block(member, at, block, x, values, file);
                at += self.flat(member) * block;
            }
            return;
        }
        self.put(node, at + x * self.size(node).0, values, file);
    }
}
