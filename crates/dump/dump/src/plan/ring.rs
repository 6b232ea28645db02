//! A ring of all ranks, in which each rank finds its partners by walking on from its own place.

/// A cyclic order of all ranks.
#[derive(Clone, Debug)]
pub struct Ring<'a> {
    order: Vec<u32>,
    /// The place of each rank in the order.
    places: Vec<usize>,
    /// The node of each rank.
    nodes: &'a [u32],
}

impl<'a> Ring<'a> {
    /// Creates a ring from an order that contains each rank of `nodes` once.
    pub fn new(order: Vec<u32>, nodes: &'a [u32]) -> Ring<'a> {
        let mut places = vec![0; order.len()];
        for (place, rank) in order.iter().enumerate() {
            places[*rank as usize] = place;
        }
        Ring { order, places, nodes }
    }

    /// Returns the next ranks after `rank` that are on different nodes and not in `taken`.
    pub fn partners<'s>(&'s self, rank: u32, taken: &[u32]) -> impl Iterator<Item = u32> + use<'s, 'a> {
        let place = self.places[rank as usize];
        let mut taken = taken.to_vec();
        self.order[place + 1..].iter().chain(&self.order[..place]).copied().filter(move |other| {
            let node = self.nodes[*other as usize];
            let free = !taken.contains(&node);
            if free {
                taken.push(node);
            }
            free
        })
    }

    /// Returns the place of a rank.
    pub fn place(&self, rank: u32) -> usize {
        self.places[rank as usize]
    }

    /// Returns the rank at a place.
    pub fn rank(&self, place: usize) -> u32 {
        self.order[place]
    }

    /// The node of each rank.
    pub fn nodes(&self) -> &'a [u32] {
        self.nodes
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.iter().max().map_or(0, |last| *last as usize + 1)
    }
}

/// Returns an order for a ring in which ranks of one node are far apart: first the first rank of each node, then the
/// second, and so on.
pub fn unordered(nodes: &[u32]) -> Vec<u32> {
    let within = within(nodes);
    let mut ranks: Vec<u32> = (0..nodes.len() as u32).collect();
    ranks.sort_by_key(|rank| (within[*rank as usize], nodes[*rank as usize]));
    ranks
}

/// Returns, for each rank, how many ranks of its node precede it.
fn within(nodes: &[u32]) -> Vec<u32> {
    let mut seen = vec![0; nodes.iter().max().map_or(0, |last| *last as usize + 1)];
    let count = |node: &u32| {
        let so_far = &mut seen[*node as usize];
        *so_far += 1;
        *so_far - 1
    };
    nodes.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_stand_apart() {
        assert_eq!(unordered(&[0, 0, 0, 1, 1, 1]), [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn partners_are_on_different_nodes() {
        let ring = Ring::new(vec![0, 1, 2, 3, 4, 5], &[0, 0, 1, 1, 2, 2]);
        assert_eq!(ring.partners(0, &[0]).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(ring.partners(5, &[2]).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(ring.partners(3, &[1, 0]).collect::<Vec<_>>(), [4]);
        assert_eq!(ring.node_count(), 3);
    }
}
