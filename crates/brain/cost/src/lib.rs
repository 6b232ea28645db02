//! The cost model of Terrace: what it costs to encode bytes, to store them somewhere and to read them back. The predictor,
//! the planner, the simulator and the bench use this one model. All rates are seconds per byte.
//!
//! - [`Expected`] says what an encoding does to some bytes, [`TargetRates`] what a target does with them.
//! - [`measured`], [`paper`] and [`energy`] combine the two into a cost, weighted by [`Weights`].
//! - [`Costs`] holds what each encoding is expected to cost on the data at hand.
//! - [`MeasuredSpeed`] follows the speed of a device by its operations.
//! - [`Objective`] fixes target, weights and reads: what a choice of an encoding minimises.
//!
//! ```
//! use terrace_cost::{Expected, Objective, TargetRates};
//!
//! let disk = TargetRates::from_speeds(100e6, 200e6, 0.0);
//! let halved = Expected::from_speeds(1e9, 2e9, 2.0);
//! let objective = Objective::time(disk, 1.0);
//! assert!(objective.cost(&halved, 1 << 20) < objective.cost(&Expected::NONE, 1 << 20));
//! ```

mod costs;
mod energy;
mod expected;
mod measured;
mod model;
mod not_understood;
mod objective;
mod paper;
mod rates;
mod round;
mod speed;
mod weights;

pub use costs::{Costs, EncodingRates, PAGE_BYTES};
pub use energy::{ASSUMED_CORE_WATTS, energy};
pub use expected::Expected;
pub use measured::measured;
pub use model::{Affine, CostModel, Model};
pub use not_understood::NotUnderstood;
pub use objective::Objective;
pub use paper::paper;
pub use rates::{TargetRates, Work};
pub use round::{down, nearest};
pub use speed::{MAX_SHORT_OPERATION_BYTES, MeasuredSpeed};
pub use weights::Weights;
