//! HCompress's own model: a linear regression on data type, format, distribution and library, with one column for each
//! value of each. It is fitted to all pieces except those of one fold, and predicts that fold.

use std::collections::BTreeMap;

use super::Fitted;

const FOLD_COUNT: usize = 10;
/// The ridge keeps the normal equations solvable when columns depend on each other.
const RIDGE_PENALTY: f64 = 1e-3;

/// Returns predicted and real values of one part. Each value is predicted from other pieces.
pub fn predicted(all: &[Fitted], part: usize) -> Vec<(f64, f64)> {
    let mut columns = BTreeMap::new();
    let rows: Vec<Vec<usize>> = all.iter().map(|fitted| inputs(fitted, &mut columns)).collect();
    let mut pairs = Vec::new();
    for fold in 0..FOLD_COUNT {
        let mut system = System::new(columns.len());
        let in_fold = |fitted: &Fitted| fitted.piece % FOLD_COUNT == fold;
        for (fitted, row) in all.iter().zip(&rows).filter(|(fitted, _)| !in_fold(fitted)) {
            if let Some(real) = fitted.real[part] {
                system.add(row, real.ln());
            }
        }
        let weights = system.solve();
        for (fitted, row) in all.iter().zip(&rows).filter(|(fitted, _)| in_fold(fitted)) {
            if let Some(real) = fitted.real[part] {
                pairs.push((row.iter().map(|column| weights[*column]).sum::<f64>().exp(), real));
            }
        }
    }
    pairs
}

/// Lists the columns whose value is 1.
fn inputs(fitted: &Fitted, columns: &mut BTreeMap<String, usize>) -> Vec<usize> {
    let attributes = &fitted.attributes;
    let values = [
        "1".to_owned(),
        format!("{:?}", attributes.elements),
        format!("{:?}", attributes.format),
        format!("{:?}", attributes.distribution),
        fitted.encoding.to_string(),
    ];
    let next = |value: (usize, String), columns: &mut BTreeMap<String, usize>| {
        let new = columns.len();
        *columns.entry(format!("{} {}", value.0, value.1)).or_insert(new)
    };
    values.into_iter().enumerate().map(|value| next(value, columns)).collect()
}

/// The normal equations.
struct System(Vec<Vec<f64>>);

impl System {
    fn new(columns: usize) -> System {
        let mut rows = vec![vec![0.0; columns + 1]; columns];
        rows.iter_mut().enumerate().for_each(|(i, row)| row[i] = RIDGE_PENALTY);
        System(rows)
    }

    fn add(&mut self, ones: &[usize], real: f64) {
        for i in ones {
            for j in ones {
                self.0[*i][*j] += 1.0;
            }
            if let Some(last) = self.0[*i].last_mut() {
                *last += real;
            }
        }
    }

    /// Solves the equations by elimination. The ridge keeps every pivot above 0.
    fn solve(mut self) -> Vec<f64> {
        for at in 0..self.0.len() {
            let pivot = self.0[at].clone();
            for (_, row) in self.0.iter_mut().enumerate().filter(|(other, _)| *other != at) {
                let factor = row[at] / pivot[at];
                row.iter_mut().zip(&pivot).for_each(|(cell, p)| *cell -= factor * p);
            }
        }
        self.0.iter().enumerate().map(|(i, row)| row.last().map_or(0.0, |last| last / row[i])).collect()
    }
}
