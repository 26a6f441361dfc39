//! Where a JSON value ends.
//!
//! All functions take the bytes of one line and a place in it, and return the place behind what they are named after;
//! None if it is not there, is no JSON (RFC 8259), is no UTF-8, or is more than Python's json module might take.

use wide::i8x16;

/// Python's json module ends at some thousand levels, by how deep its caller is.
const MOST_LEVELS: usize = 100;
/// Python refuses integers of more than 4,300 digits.
const MOST_DIGITS: usize = 4_000;
/// Characters are looked at in groups of so many.
const GROUP: usize = 16;

/// White space within a line.
#[inline]
pub fn white(line: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r') = line.get(at) {
        at += 1;
    }
    at
}

/// The given bytes.
#[inline]
pub fn exactly(line: &[u8], at: usize, bytes: &[u8]) -> Option<usize> {
    line.get(at..)?
        .starts_with(bytes)
        .then_some(at + bytes.len())
}

/// A text's content, from behind its opening quote to its closing one.
pub struct Text {
    /// Of the closing quote.
    pub end: usize,
    pub has_escapes: bool,
    pub is_ascii: bool,
}

/// The content of a text that begins behind its opening quote.
#[inline]
pub fn text(line: &[u8], at: usize) -> Option<Text> {
    let end = plain(line, at);
    if line.get(end) == Some(&b'"') {
        return Some(Text {
            end,
            has_escapes: false,
            is_ascii: true,
        });
    }
    odd_text(line, end)
}

/// Behind a text's closing quote, from behind its opening one.
#[inline(always)]
fn text_end(line: &[u8], at: usize) -> Option<usize> {
    let end = plain(line, at);
    if line.get(end) == Some(&b'"') {
        return Some(end + 1);
    }
    Some(odd_text(line, end)?.end + 1)
}

/// The content of a text, from a place in it that is not plain.
#[inline(never)]
fn odd_text(line: &[u8], mut at: usize) -> Option<Text> {
    let (mut has_escapes, mut is_ascii) = (false, true);
    loop {
        match *line.get(at)? {
            b'"' => {
                return Some(Text {
                    end: at,
                    has_escapes,
                    is_ascii,
                })
            }
            b'\\' => {
                has_escapes = true;
                at = escape(line, at)?;
            }
            0x80.. => {
                is_ascii = false;
                at = character(line, at)?;
            }
            _ => return None, // a control character
        }
        at = plain(line, at);
    }
}

/// Behind the characters of ASCII that stand for themselves.
#[inline(always)]
fn plain(line: &[u8], mut at: usize) -> usize {
    while let Some(group) = line.get(at..at + GROUP) {
        let odd = odd_places(group);
        if odd != 0 {
            return at + odd.trailing_zeros() as usize;
        }
        at += GROUP;
    }
    while line
        .get(at)
        .is_some_and(|&byte| (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\')
    {
        at += 1;
    }
    at
}

/// A bit for each byte of a group that is a quote, a backslash, a control character or no ASCII.
#[inline(always)]
fn odd_places(group: &[u8]) -> u32 {
    let mut signed = [0i8; GROUP];
    for (to, &from) in signed.iter_mut().zip(group) {
        *to = from as i8; // what is no ASCII is below 0
    }
    let group = i8x16::new(signed);
    let quotes = group.simd_eq(i8x16::splat(b'"' as i8));
    let backslashes = group.simd_eq(i8x16::splat(b'\\' as i8));
    let controls = group.simd_lt(i8x16::splat(0x20));
    (quotes | backslashes | controls).to_bitmask()
}

fn escape(line: &[u8], at: usize) -> Option<usize> {
    match line.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => line
            .get(at + 2..at + 6)?
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then_some(at + 6),
        _ => None,
    }
}

/// A character of UTF-8 that is not ASCII.
fn character(line: &[u8], at: usize) -> Option<usize> {
    let size = match *line.get(at)? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    std::str::from_utf8(line.get(at..at + size)?)
        .ok()
        .map(|_| at + size)
}

/// A number, and whether it is written without fraction and exponent.
#[inline]
pub fn number(line: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start + usize::from(line.get(start) == Some(&b'-'));
    let mut is_whole = true;
    at = match line.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(line, at)?,
        _ => return None,
    };
    if line.get(at) == Some(&b'.') {
        is_whole = false;
        at = digits(line, at + 1)?;
    }
    if let Some(b'e' | b'E') = line.get(at) {
        is_whole = false;
        at += 1 + usize::from(matches!(line.get(at + 1), Some(b'+' | b'-')));
        at = digits(line, at)?;
    }
    (at - start <= MOST_DIGITS).then_some((at, is_whole))
}

/// One digit or more.
#[inline]
fn digits(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(b'0'..=b'9') = line.get(at) {
        at += 1;
    }
    (at > start).then_some(at)
}

/// Any value.
#[inline(always)]
pub fn value(line: &[u8], at: usize) -> Option<usize> {
    match *line.get(at)? {
        b'{' | b'[' => nested(line, at),
        first => scalar(line, at, first),
    }
}

#[inline(always)]
fn scalar(line: &[u8], at: usize, first: u8) -> Option<usize> {
    match first {
        b'"' => text_end(line, at + 1),
        b't' => exactly(line, at, b"true"),
        b'f' => exactly(line, at, b"false"),
        b'n' => exactly(line, at, b"null"),
        _ => number(line, at).map(|(end, _)| end),
    }
}

/// An object or an array.
fn nested(line: &[u8], mut at: usize) -> Option<usize> {
    let mut levels = 0; // how many are open
    let mut objects = 0u128; // a bit for each, the innermost's the lowest: whether it is an object
    loop {
        // A value begins here.
        let first = *line.get(at)?;
        if first == b'{' || first == b'[' {
            let is_object = first == b'{';
            at = white(line, at + 1);
            if *line.get(at)? == first + 2 {
                at += 1; // it is empty
            } else {
                levels += 1;
                if levels > MOST_LEVELS {
                    return None;
                }
                objects = objects << 1 | u128::from(is_object);
                if is_object {
                    at = key(line, at)?;
                }
                continue;
            }
        } else {
            at = scalar(line, at, first)?;
        }
        // A value ended here.
        loop {
            if levels == 0 {
                return Some(at);
            }
            at = white(line, at);
            let is_object = objects & 1 == 1;
            match line.get(at)? {
                b',' => {
                    at = white(line, at + 1);
                    if is_object {
                        at = key(line, at)?;
                    }
                    break;
                }
                b'}' if is_object => {}
                b']' if !is_object => {}
                _ => return None,
            }
            at += 1;
            levels -= 1;
            objects >>= 1;
        }
    }
}

/// A key of an object and its colon.
#[inline(always)]
fn key(line: &[u8], at: usize) -> Option<usize> {
    if *line.get(at)? != b'"' {
        return None;
    }
    colon(line, text_end(line, at + 1)?)
}

/// The colon behind a key, and white space around it.
#[inline]
pub fn colon(line: &[u8], at: usize) -> Option<usize> {
    let at = white(line, at);
    (line.get(at)? == &b':').then(|| white(line, at + 1))
}
