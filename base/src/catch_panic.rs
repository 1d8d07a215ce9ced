//! Calls of code that is not, or need not be, this project's: merge operators, listeners, jobs.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Call what may panic; a panic goes no further.
///
/// In what state a panic leaves what `call` shares with others is the business of whoever wrote it.
///
/// # Errors
/// A panic's text.
///
/// ```
/// use esker_base::catch_panic;
/// assert_eq!(catch_panic(|| 7), Ok(7));
/// assert_eq!(catch_panic(|| panic!("not {}", 8)), Err::<(), _>("not 8".to_owned()));
/// ```
pub fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        // The payload is a value of whoever panicked: dropping it may panic as well, even more than once.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        message
    })
}
