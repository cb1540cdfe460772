//! The wire format of protocol buffers: numbered pieces, one after another.

use super::{Malformed, Read};

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A number of fixed length, which Kubernetes does not use.
    Fixed,
}

impl<'a> Piece<'a> {
    pub(super) fn bytes(self) -> Read<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(Malformed("a field is not of its type")),
        }
    }

    pub(super) fn varint(self) -> Read<u64> {
        match self {
            Self::Varint(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Malformed("a field is not of its type")),
        }
    }
}

/// Takes the pieces of a message off its front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(content: &'a [u8]) -> Self {
        Self(content)
    }

    /// Returns the next field with its number; `None` at the end.
    pub(super) fn next(&mut self) -> Read<Option<(u64, Piece<'a>)>> {
        let Some(tag) = self.varint()? else {
            return Ok(None);
        };
        let ends = || Malformed("the body ends too early");
        let piece = match tag & 7 {
            0 => Piece::Varint(self.varint()?.ok_or_else(ends)?),
            1 => self.take(8).map(|_| Piece::Fixed)?,
            2 => {
                let length = self.varint()?.ok_or_else(ends)?;
                let length = usize::try_from(length).map_err(|_| ends())?;
                Piece::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Piece::Fixed)?,
            _ => return Err(Malformed("a field has no known form")),
        };
        Ok(Some((tag >> 3, piece)))
    }

    /// Returns the next number; `None` at the end.
    pub(super) fn varint(&mut self) -> Read<Option<u64>> {
        let mut number = 0_u64;
        for place in 0..10_u32 {
            let Some((byte, rest)) = self.0.split_first() else {
                return if place == 0 {
                    Ok(None)
                } else {
                    Err(Malformed("the body ends too early"))
                };
            };
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(Some(number));
            }
        }
        Err(Malformed("a number is too long"))
    }

    fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let taken = self.0.split_at_checked(length);
        let (taken, rest) = taken.ok_or(Malformed("the body ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }
}
