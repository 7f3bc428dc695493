//! What comes of a run: what is written down while it runs, what is measured in it, and the directory that it leaves.
//!
//! | module | is |
//! |---|---|
//! | [`record`] | what every backend writes down while it runs |
//! | [`deadlock`] | finds queues of a fabric that wait for each other in a circle |
//! | [`feedback`] | how long flow control takes across a link |
//! | [`measure`] | completion times, slowdowns, how near queues came to a PAUSE |
//! | [`run_dir`] | the files that a run leaves behind |
//! | [`plot`] | draws figures |

#![forbid(unsafe_code)]

pub mod deadlock;
pub mod feedback;
pub mod measure;
pub mod plot;
pub mod record;
pub mod run_dir;
