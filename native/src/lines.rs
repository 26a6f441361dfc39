//! A block of lines, each one object, into columns of some of their fields.

use std::collections::HashMap;

use crate::column::{Kind, Values};
use crate::scan;

/// A field that is wanted.
pub struct Field {
    pub kind: Kind,
    pub nullable: bool,
    pub most_characters: usize,
}

/// What a line has for a field: the last one counts, as in Python's dicts.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Text {
        begin: usize,
        end: usize,
        has_escapes: bool,
        is_ascii: bool,
    },
    Bool(bool),
    Float(f64),
    Int(i64),
}

/// A key that some line had at this place among its keys: the next line most likely has it there, too.
#[derive(Default)]
struct Expected {
    /// With its closing quote; empty for none.
    key: Vec<u8>,
    field: Option<usize>,
}

/// Decodes blocks.
pub struct Lines {
    fields: Vec<Field>,
    places: HashMap<Vec<u8>, usize>,
    found: Vec<Found>,
    expected: Vec<Expected>,
}

/// Of so many keys of a line the next ones are looked up each time.
const MOST_EXPECTED: usize = 256;
/// So are keys of more bytes.
const LONGEST_EXPECTED: usize = 256;

impl Lines {
    /// Want these fields, each with its name.
    pub fn new(named: Vec<(Vec<u8>, Field)>) -> Self {
        let (names, fields): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        Self {
            found: vec![Found::Nothing; fields.len()],
            places: names.into_iter().zip(0..).collect(),
            fields,
            expected: Vec::new(),
        }
    }

    /// Return a column for each field; None if a line is not certain to be what it is taken for.
    pub fn decode(&mut self, block: &[u8]) -> Option<Vec<Values>> {
        let breaks = memchr::memchr_iter(b'\n', block).count();
        let count = breaks + usize::from(!block.ends_with(b"\n"));
        if 2 * count + breaks > block.len() {
            return None; // it is empty, or there are lines of less than `{}`: no room is made for as many
        }
        let mut columns: Vec<Values> = self
            .fields
            .iter()
            .map(|field| Values::new(field.kind, count))
            .collect();
        let mut rest = block;
        while !rest.is_empty() {
            let (line, next) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            self.read(line)?;
            self.put(line, &mut columns)?;
            rest = next;
        }
        for column in &mut columns {
            column.fill_valid();
        }
        Some(columns)
    }

    /// Find the fields of one line.
    fn read(&mut self, line: &[u8]) -> Option<()> {
        self.found.fill(Found::Nothing);
        let mut at = scan::exactly(line, scan::white(line, 0), b"{")?;
        at = scan::white(line, at);
        if let Some(end) = scan::exactly(line, at, b"}") {
            at = end;
        } else {
            for place in 0.. {
                at = scan::exactly(line, at, b"\"")?;
                let (end, field) = self.key(line, at, place)?;
                at = scan::colon(line, end)?;
                at = match field {
                    Some(field) => self.field(line, at, field)?,
                    None => scan::value(line, at)?,
                };
                at = scan::white(line, at);
                match line.get(at)? {
                    b',' => at = scan::white(line, at + 1),
                    b'}' => break,
                    _ => return None,
                }
            }
            at += 1;
        }
        (scan::white(line, at) == line.len()).then_some(())
    }

    /// Return the place behind a key's closing quote, and which field it names.
    #[inline]
    fn key(&mut self, line: &[u8], at: usize, place: usize) -> Option<(usize, Option<usize>)> {
        match self.expected.get(place) {
            Some(expected) if !expected.key.is_empty() => {
                match scan::exactly(line, at, &expected.key) {
                    Some(end) => Some((end, expected.field)),
                    None => self.other_key(line, at, place),
                }
            }
            _ => self.other_key(line, at, place),
        }
    }

    fn other_key(
        &mut self,
        line: &[u8],
        at: usize,
        place: usize,
    ) -> Option<(usize, Option<usize>)> {
        let text = scan::text(line, at)?;
        if text.has_escapes {
            return None; // it may name a field in another way
        }
        let field = self.places.get(&line[at..text.end]).copied();
        if place < MOST_EXPECTED && text.end - at < LONGEST_EXPECTED {
            if self.expected.len() <= place {
                self.expected.resize_with(place + 1, Expected::default);
            }
            let expected = &mut self.expected[place];
            expected.key.clear();
            expected.key.extend_from_slice(&line[at..=text.end]);
            expected.field = field;
        }
        Some((text.end + 1, field))
    }

    /// Read the value of a field; return the place behind it.
    #[inline]
    fn field(&mut self, line: &[u8], at: usize, place: usize) -> Option<usize> {
        let first = *line.get(at)?;
        let (end, found) = match self.fields[place].kind {
            _ if first == b'n' => (scan::exactly(line, at, b"null")?, Found::Nothing),
            Kind::Text if first == b'"' => {
                let text = scan::text(line, at + 1)?;
                let found = Found::Text {
                    begin: at + 1,
                    end: text.end,
                    has_escapes: text.has_escapes,
                    is_ascii: text.is_ascii,
                };
                (text.end + 1, found)
            }
            Kind::Raw => {
                let end = scan::value(line, at)?;
                (
                    end,
                    Found::Text {
                        begin: at,
                        end,
                        has_escapes: false,
                        is_ascii: false,
                    },
                )
            }
            Kind::Bool if first == b't' => (scan::exactly(line, at, b"true")?, Found::Bool(true)),
            Kind::Bool => (scan::exactly(line, at, b"false")?, Found::Bool(false)),
            Kind::Float => {
                let (end, value) = float(line, at)?;
                (end, Found::Float(value))
            }
            Kind::Int(_) => {
                let (end, value) = int(line, at)?;
                (end, Found::Int(value))
            }
            Kind::Text => return None,
        };
        self.found[place] = found;
        Some(end)
    }

    /// Append what was found to the columns.
    #[inline]
    fn put(&self, line: &[u8], columns: &mut [Values]) -> Option<()> {
        for ((field, found), column) in self.fields.iter().zip(&self.found).zip(columns) {
            match *found {
                Found::Nothing if !field.nullable => return None,
                Found::Nothing => column.push_null()?,
                Found::Text {
                    begin,
                    end,
                    has_escapes,
                    is_ascii,
                } => {
                    let text = line.get(begin..end)?;
                    let start = column.data.len();
                    if has_escapes {
                        unescape(text, &mut column.data)?;
                    } else {
                        column.data.extend_from_slice(text);
                    }
                    if field.most_characters < i32::MAX as usize && field.kind == Kind::Text {
                        let kept = &column.data[start..];
                        let characters = if is_ascii && !has_escapes {
                            kept.len()
                        } else {
                            kept.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
                        };
                        if characters > field.most_characters {
                            return None;
                        }
                    }
                    column.end_text()?;
                }
                Found::Bool(value) => column.push_bool(value),
                Found::Float(value) => column.push_float(value),
                Found::Int(value) => match field.kind {
                    Kind::Int(size) => column.push_int(value, size)?,
                    _ => return None,
                },
            }
        }
        Some(())
    }
}

/// An integer of at most 18 digits, written as one.
#[inline]
fn int(line: &[u8], at: usize) -> Option<(usize, i64)> {
    let (end, is_whole) = scan::number(line, at)?;
    let text = &line[at..end];
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !is_whole || digits.len() > 18 {
        return None;
    }
    let size = digits
        .iter()
        .fold(0i64, |size, digit| 10 * size + i64::from(digit - b'0'));
    Some((
        end,
        if digits.len() < text.len() {
            -size
        } else {
            size
        },
    ))
}

/// A finite number; `-0` is refused, which some take for 0.
#[inline]
fn float(line: &[u8], at: usize) -> Option<(usize, f64)> {
    let (end, _) = scan::number(line, at)?;
    let text = &line[at..end];
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.is_finite() && text != b"-0").then_some((end, value))
}

/// Append a text without its escapes; None if half a surrogate pair is among them.
fn unescape(text: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        into.extend_from_slice(&rest[..place]);
        let plain = match rest.get(place + 1)? {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, behind) = unit(&rest[place + 2..])?;
                let mut buffer = [0; 4];
                into.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                rest = behind;
                continue;
            }
            itself => *itself,
        };
        into.push(plain);
        rest = &rest[place + 2..];
    }
    into.extend_from_slice(rest);
    Some(())
}

/// The character of four hexadecimal digits, or of those and a second half; and what is behind them.
fn unit(text: &[u8]) -> Option<(char, &[u8])> {
    let first = hexadecimal(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, &text[4..]));
    }
    let second = hexadecimal(text[4..].strip_prefix(b"\\u")?)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let both = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(both)?, &text[10..]))
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text.get(..4)?).ok()?, 16).ok()
}
