//! The values of one field, as Arrow lays them out in memory (https://arrow.apache.org/docs/format/Columnar.html).

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// The JSON text of a value of any kind.
    Raw,
    Bool,
    Float,
    /// A signed integer of so many bytes.
    Int(usize),
}

impl Kind {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "raw" => Self::Raw,
            "bool" => Self::Bool,
            "f64" => Self::Float,
            "i8" => Self::Int(1),
            "i16" => Self::Int(2),
            "i32" => Self::Int(4),
            "i64" => Self::Int(8),
            _ => return None,
        })
    }

    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Raw)
    }
}

/// A column.
pub struct Values {
    pub kind: Kind,
    len: usize,
    pub nulls: usize,
    /// Bits, the lowest of a byte first; only up to the last null, and whole once the column is.
    pub valid: Vec<u8>,
    /// Of texts: where each begins, and where the last one ends; 32 bits each.
    pub offsets: Vec<u8>,
    pub data: Vec<u8>,
}

impl Values {
    /// Begin a column of so many values.
    pub fn new(kind: Kind, values: usize) -> Self {
        let mut offsets = Vec::new();
        if kind.is_text() {
            offsets.reserve(4 * (values + 1));
            offsets.extend_from_slice(&0i32.to_le_bytes());
        }
        let size = match kind {
            Kind::Int(size) => size,
            Kind::Float => 8,
            Kind::Bool => 1,
            Kind::Text | Kind::Raw => 16, // a guess
        };
        Self {
            kind,
            len: 0,
            nulls: 0,
            valid: Vec::new(),
            offsets,
            data: Vec::with_capacity(size * values),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Append a text that was put at the end of `data`; None if Arrow's offsets end before.
    #[inline]
    pub fn end_text(&mut self) -> Option<()> {
        let end = i32::try_from(self.data.len()).ok()?;
        self.offsets.extend_from_slice(&end.to_le_bytes());
        self.len += 1;
        Some(())
    }

    #[inline]
    pub fn push_float(&mut self, value: f64) {
        self.data.extend_from_slice(&value.to_le_bytes());
        self.len += 1;
    }

    /// Append an integer; None if it is too large.
    #[inline]
    pub fn push_int(&mut self, value: i64, size: usize) -> Option<()> {
        let spare = 64 - 8 * size as u32;
        if (value << spare) >> spare != value {
            return None;
        }
        self.data.extend_from_slice(&value.to_le_bytes()[..size]);
        self.len += 1;
        Some(())
    }

    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        self.set_bit(value);
        self.len += 1;
    }

    fn set_bit(&mut self, value: bool) {
        if self.len.is_multiple_of(8) {
            self.data.push(0);
        }
        if let Some(last) = self.data.last_mut() {
            *last |= u8::from(value) << (self.len % 8);
        }
    }

    /// Append null; None if Arrow's offsets end before.
    pub fn push_null(&mut self) -> Option<()> {
        self.fill_valid();
        let place = self.len;
        self.valid.resize(place / 8 + 1, 0xff);
        self.valid[place / 8] &= !(1 << (place % 8));
        self.nulls += 1;
        match self.kind {
            Kind::Text | Kind::Raw => return self.end_text(),
            Kind::Bool => self.set_bit(false),
            Kind::Float => self.data.extend_from_slice(&[0; 8]),
            Kind::Int(size) => self.data.extend_from_slice(&[0; 8][..size]),
        }
        self.len += 1;
        Some(())
    }

    /// Have a bit for each value so far.
    pub fn fill_valid(&mut self) {
        self.valid.resize(self.len.div_ceil(8), 0xff);
    }

    fn is_valid(&self, place: usize) -> bool {
        self.valid
            .get(place / 8)
            .is_none_or(|bits| bits >> (place % 8) & 1 == 1)
    }

    /// Return Python's values.
    pub fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut values: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.len);
        for place in 0..self.len {
            values.push(if self.is_valid(place) {
                self.value(py, place)?
            } else {
                py.None().into_bound(py)
            });
        }
        PyList::new(py, values)
    }

    fn value<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.kind {
            Kind::Text | Kind::Raw => PyString::from_bytes(py, self.text(place))?.into_any(),
            Kind::Bool => PyBool::new(py, self.data[place / 8] >> (place % 8) & 1 == 1)
                .to_owned()
                .into_any(),
            Kind::Float => PyFloat::new(py, f64::from_bits(self.fixed(place, 8) as u64)).into_any(),
            Kind::Int(size) => PyInt::new(py, self.fixed(place, size)).into_any(),
        })
    }

    fn text(&self, place: usize) -> &[u8] {
        let [begin, end] = [place, place + 1].map(|at| {
            let mut offset = [0; 4];
            offset.copy_from_slice(&self.offsets[4 * at..4 * at + 4]);
            i32::from_le_bytes(offset) as usize
        });
        &self.data[begin..end]
    }

    /// A number of so many bytes, with its sign.
    fn fixed(&self, place: usize, size: usize) -> i64 {
        let mut bytes = [0; 8];
        bytes[8 - size..].copy_from_slice(&self.data[size * place..size * (place + 1)]);
        i64::from_le_bytes(bytes) >> (64 - 8 * size as u32)
    }
}
