//! The memory that is a program's state.

use terrace_dump::Result;

use crate::objects;
use crate::ranges::Addresses;

/// The memory of the program's variables. Its heap and its stack are elsewhere, and always its own.
pub struct Areas {
    /// The pages of variables.
    pub variables: Vec<Addresses>,
    /// Variables of its one thread, among those of other libraries.
    pub thread_variables: Vec<Addresses>,
    /// The variables of MPI and the C library among the program's, in order. They stay as they are.
    pub foreign: Vec<Addresses>,
}

impl Areas {
    /// Finds the areas of this process.
    pub fn find() -> Result<Areas> {
        let objects = objects::get()?;
        let program = || objects.iter().filter(|object| object.is_program);
        Ok(Areas {
            variables: program().flat_map(|object| object.variables.clone()).collect(),
            thread_variables: program().filter_map(|object| object.thread_variables.clone()).collect(),
            foreign: objects::find_foreign_variables(objects)?,
        })
    }
}
