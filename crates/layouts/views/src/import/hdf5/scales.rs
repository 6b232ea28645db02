//! Dimension scales: datasets that describe a dimension of others, which has their name.

use hdf5_reader::Dataset;

/// The attributes that tell libraries of HDF5 and NetCDF how dimensions and files are made.
const HIDDEN_ATTRIBUTES: [&str; 6] =
    ["DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"];

/// Returns whether an attribute is none of the data.
pub fn is_hidden(name: &str, is_scale: bool) -> bool {
    HIDDEN_ATTRIBUTES.contains(&name) || is_scale && matches!(name, "CLASS" | "NAME")
}

/// Returns whether a dataset describes a dimension.
pub fn is_scale(dataset: &Dataset) -> bool {
    let class = dataset.attribute("CLASS").and_then(|class| class.read_string());
    class.is_ok_and(|class| class == "DIMENSION_SCALE")
}

/// Returns the number that NetCDF gives to the dimension that a scale describes.
pub fn dimension_id(scale: &Dataset) -> Option<i32> {
    scale.attribute("_Netcdf4Dimid").ok()?.read_scalar().ok()
}

/// Returns the numbers of the dimensions of a scale with several, such as a coordinate of texts. A scale can have no scales of its own.
pub fn dimension_ids(dataset: &Dataset) -> Vec<i32> {
    if dataset.ndim() < 2 || !is_scale(dataset) {
        return Vec::new();
    }
    let ids = dataset.attribute("_Netcdf4Coordinates").and_then(|ids| ids.read_1d());
    ids.ok().filter(|ids: &Vec<i32>| ids.len() == dataset.ndim()).unwrap_or_default()
}

/// Returns the addresses of the scales of a dataset's dimensions; nothing if one has none. A scale describes itself.
pub fn of_dimensions(dataset: &Dataset) -> Vec<u64> {
    if dataset.ndim() == 1 && is_scale(dataset) {
        return vec![dataset.address()];
    }
    let Ok(list) = dataset.attribute("DIMENSION_LIST") else { return Vec::new() };
    // An element is a list of references to scales: its length, an address in the file, and a number.
    let size = dataset.vlen_reference_size();
    let first = |list: &[u8]| {
        let references = dataset.resolve_vlen_reference_bytes(list, size.checked_sub(8)?).ok()?;
        let reference = references.get(..size.checked_sub(8)?)?;
        Some(reference.iter().rev().fold(0, |address, byte| address << 8 | u64::from(*byte)))
    };
    let scales: Option<Vec<u64>> = list.raw_data.chunks_exact(size).map(first).collect();
    scales.filter(|scales| scales.len() == dataset.ndim()).unwrap_or_default()
}
