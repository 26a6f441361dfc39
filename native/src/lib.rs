//! JSON lines as columns, for millstream's `formats/json`.
//!
//! ```text
//! lib.rs      what Python sees: JsonLines, Column
//! lines.rs    a block of lines into columns
//! scan.rs     where a JSON value ends, and whether it is one
//! column.rs   the values of one field
//! ```
//!
//! A block is taken or refused as a whole: what is taken means what Python's json module says it means, and whoever
//! asks reads a refused block in another way. No code here is `unsafe`, and none of it writes messages about input.

#[cfg(target_endian = "big")]
compile_error!("columns are written as little-endian processors have them in memory");

mod column;
mod lines;
mod scan;

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use column::{Kind, Values};
use lines::{Field, Lines};

/// Decodes blocks of lines, each of which is one object.
///
/// Args:
///     fields: For each that is wanted its name, its kind, whether it may be missing or null, and how many characters
///         a text may have. Kinds: `text`, `raw` (the JSON text of a value), `bool`, `f64`, `i8`, `i16`, `i32`, `i64`.
///
/// Raises:
///     ValueError: If there is no such kind.
#[pyclass(module = "millstream_native", frozen)]
struct JsonLines {
    lines: Mutex<Lines>,
}

#[pymethods]
impl JsonLines {
    #[new]
    fn new(fields: Vec<(String, String, bool, usize)>) -> PyResult<Self> {
        let mut wanted = Vec::with_capacity(fields.len());
        for (name, kind, nullable, most_characters) in fields {
            let Some(kind) = Kind::named(&kind) else {
                let message = format!("field {name:?}: there is no kind {kind:?}");
                return Err(PyValueError::new_err(message));
            };
            let field = Field {
                kind,
                nullable,
                most_characters,
            };
            wanted.push((name.into_bytes(), field));
        }
        Ok(Self {
            lines: Mutex::new(Lines::new(wanted)),
        })
    }

    /// Return a column for each field; None if the block is refused.
    ///
    /// Other threads of Python run meanwhile.
    fn decode(&self, py: Python<'_>, block: &[u8]) -> Option<Vec<Column>> {
        let columns = py.detach(|| {
            self.lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .decode(block)
        })?;
        Some(
            columns
                .into_iter()
                .map(|values| Column { values })
                .collect(),
        )
    }
}

/// The values of one field.
#[pyclass(module = "millstream_native", frozen)]
struct Column {
    values: Values,
}

#[pymethods]
impl Column {
    fn __len__(&self) -> usize {
        self.values.len()
    }

    /// Return the values: str, bool, float or int, None for those that are null.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.values.list(py)
    }

    /// Return the number of nulls, and Arrow's buffers: of what is valid (None if all is), of offsets (None where
    /// values have one size), and of data; bits for `bool`.
    #[allow(clippy::type_complexity)]
    fn buffers<'py>(
        &self,
        py: Python<'py>,
    ) -> (
        usize,
        Option<Bound<'py, PyBytes>>,
        Option<Bound<'py, PyBytes>>,
        Bound<'py, PyBytes>,
    ) {
        let bytes = |data: &[u8]| PyBytes::new(py, data);
        let values = &self.values;
        let valid = (values.nulls > 0).then(|| bytes(&values.valid));
        let offsets = values.kind.is_text().then(|| bytes(&values.offsets));
        (values.nulls, valid, offsets, bytes(&values.data))
    }
}

#[pymodule]
fn millstream_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JsonLines>()?;
    module.add_class::<Column>()
}
