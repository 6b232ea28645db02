//! Dimension scales, which name dimensions in HDF5 and so in NetCDF.

use std::collections::BTreeMap;

use super::super::Described;
use super::attribute::{Message, attribute, text};
use super::heap::Heap;
use crate::model::{Items, Misfit, Primitive, Value};

/// The attributes that scales need, which are no attributes of the data.
pub const SCALE_ATTRIBUTES: [&str; 5] = ["CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid"];

/// A dimension with a name.
pub struct Scale {
    /// Its name.
    pub name: String,
    /// Its length.
    pub length: u64,
    /// The variable that has its name and so its values.
    pub variable: Option<usize>,
}

/// Returns the dimensions of variables. A name of several lengths, and one of a variable that does not belong to the dimension, stays
/// unused.
pub fn scales(variables: &[Described]) -> Vec<Scale> {
    let mut lengths: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for (name, length) in variables.iter().flat_map(|one| one.dimensions.iter().zip(&one.lengths)) {
        let known = lengths.entry(name).or_insert(Some(*length));
        *known = known.filter(|known| known == length);
    }
    let scale = |(name, length): (&str, Option<u64>)| {
        let variable = variables.iter().position(|one| one.name == name);
        let fits = |number: &usize| variables.get(*number).is_some_and(|one| one.dimensions == [name]);
        let usable = !name.is_empty() && variable.as_ref().is_none_or(fits);
        Some(Scale { name: name.to_owned(), length: length.filter(|_| usable)?, variable })
    };
    lengths.into_iter().filter_map(scale).collect()
}

/// Returns the numbers of the scales of a variable's dimensions, if all of them have one and it is none itself.
pub fn of_variable(scales: &[Scale], variable: &Described) -> Option<Vec<usize>> {
    let find = |name: &String| scales.iter().position(|scale| scale.name == *name);
    let all = !variable.dimensions.is_empty() && variable.dimensions.len() == variable.lengths.len();
    let is_scale = variable.dimensions.as_slice() == [variable.name.clone()];
    variable.dimensions.iter().map(find).collect::<Option<Vec<_>>>().filter(|_| all && !is_scale)
}

/// Returns the attributes that make a dataset the scale of this number.
pub fn attributes(scale: &Scale, number: usize, heap: &mut Heap) -> Result<Vec<Message>, Misfit> {
    let name = match scale.variable {
        Some(_) => scale.name.clone(),
        None => format!("This is a netCDF dimension but not a netCDF variable.{:>10}", scale.length),
    };
    let number = Items::Numbers(Primitive::Int32, (number as i32).to_le_bytes().to_vec());
    let id = attribute("_Netcdf4Dimid", &Value { lengths: Vec::new(), items: number }, heap)?;
    Ok(vec![text("CLASS", "DIMENSION_SCALE")?, text("NAME", &name)?, id])
}
