//! The encoding of values between the server and its workers.
//!
//! Both sides run the same binary, so the encoding has no versions. The server does not trust a worker: decoding checks
//! every length against what is left of the message, limits the memory of lists by the length of the message, and fails
//! on anything that is not exactly one value.

pub(crate) mod domain;

use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes that are not the encoding of the expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a malformed message")]
pub(crate) struct Malformed;

/// The elements of the lists of a message may take this much memory, and as much again as the message has bytes.
/// An element of one byte in the message may take a hundred in memory.
const ELEMENT_BYTES: usize = 32 << 20;

/// What is left of a message.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    /// Memory that further elements of lists may take, in bytes.
    elements: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, elements: ELEMENT_BYTES.saturating_add(bytes.len()) }
    }

    /// Takes the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads a length. Every element takes at least one byte, so a length is never more than what is left.
    pub(crate) fn length(&mut self) -> Result<usize, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if length <= self.bytes.len() { Ok(length) } else { Err(Malformed) }
    }

    /// Accounts for an element of a list.
    fn element<T>(&mut self) -> Result<(), Malformed> {
        self.elements = self.elements.checked_sub(size_of::<T>()).ok_or(Malformed)?;
        Ok(())
    }

    /// Reads an unsigned number in groups of seven bits, the lowest first.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            let group = u64::from(byte & 0x7f);
            number |= group << shift;
            if byte & 0x80 == 0 {
                // The last group of a 64-bit number has one bit.
                return if shift == 63 && group > 1 { Err(Malformed) } else { Ok(number) };
            }
        }
        Err(Malformed)
    }

    /// Succeeds if nothing is left.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    /// Returns `true` if nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Appends an unsigned number in groups of seven bits, the lowest first.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A value that can be sent.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(input: &mut Input<'_>) -> Result<Self, Malformed>;

    /// Encodes the value as a whole message.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Decodes a whole message.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let value = Self::get(&mut input)?;
        input.end()?;
        Ok(value)
    }
}

/// Implements [`Wire`] for structures, by their fields in order.
macro_rules! wire_struct {
    ($($type:ty { $($field:ident),* $(,)? })*) => {$(
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
            }

            fn get(input: &mut $crate::wire::Input<'_>) -> Result<Self, $crate::wire::Malformed> {
                Ok(Self { $($field: $crate::wire::Wire::get(input)?),* })
            }
        }

        #[cfg(test)]
        impl $crate::tests::sample::Sample for $type {
            fn sample(source: &mut $crate::tests::sample::Source) -> Self {
                Self { $($field: $crate::tests::sample::Sample::sample(source)),* }
            }
        }
    )*};
}

/// Implements [`Wire`] for enumerations, by the number of the variant and its fields in order.
macro_rules! wire_enum {
    ($type:ty { $($tag:literal => $variant:ident $( ( $($inner:ident),* ) )? $( { $($field:ident),* $(,)? } )?),* $(,)? }) => {
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $( ( $($inner),* ) )? $( { $($field),* } )? => {
                        out.push($tag);
                        $($($crate::wire::Wire::put($inner, out);)*)?
                        $($($crate::wire::Wire::put($field, out);)*)?
                    })*
                }
            }

            fn get(input: &mut $crate::wire::Input<'_>) -> Result<Self, $crate::wire::Malformed> {
                Ok(match <u8 as $crate::wire::Wire>::get(input)? {
                    $($tag => {
                        $($(let $inner = $crate::wire::Wire::get(input)?;)*)?
                        $($(let $field = $crate::wire::Wire::get(input)?;)*)?
                        Self::$variant $( ( $($inner),* ) )? $( { $($field),* } )?
                    })*
                    _ => return Err($crate::wire::Malformed),
                })
            }
        }

        #[cfg(test)]
        impl $crate::tests::sample::Sample for $type {
            fn sample(source: &mut $crate::tests::sample::Source) -> Self {
                let variants: &[fn(&mut $crate::tests::sample::Source) -> Self] = &[$(
                    |source| {
                        source.step();
                        $($(let $inner = $crate::tests::sample::Sample::sample(source);)*)?
                        $($(let $field = $crate::tests::sample::Sample::sample(source);)*)?
                        Self::$variant $( ( $($inner),* ) )? $( { $($field),* } )?
                    }
                ),*];
                source.one_of(variants)(source)
            }
        }
    };
}

pub(crate) use {wire_enum, wire_struct};

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(u8::from_le_bytes(input.array()?))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        match u8::get(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn get(_: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(*self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.number()
    }
}

impl Wire for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_number((*self).into(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.number()?.try_into().map_err(|_| Malformed)
    }
}

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(*self as u64, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        input.number()?.try_into().map_err(|_| Malformed)
    }
}

impl Wire for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        // Small negative numbers take few bytes, too.
        put_number(((self << 1) ^ (self >> 63)) as u64, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let number = input.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

impl Wire for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        i64::from(*self).put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        i64::get(input)?.try_into().map_err(|_| Malformed)
    }
}

impl Wire for f64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self::from_bits(u64::from_le_bytes(input.array()?)))
    }
}

/// Appends bytes with their length.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Reads bytes with their length.
pub(crate) fn get_bytes<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    let length = input.length()?;
    input.take(length)
}

/// Bytes that are not a list of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.0, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self(get_bytes(input)?.to_vec()))
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Self::from_utf8(get_bytes(input)?.to_vec()).map_err(|_| Malformed)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(if bool::get(input)? { Some(T::get(input)?) } else { None })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        for value in self {
            value.put(out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        // Not reserved: a short message could otherwise ask for much memory.
        (0..input.length()?)
            .map(|_| {
                input.element::<T>()?;
                T::get(input)
            })
            .collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        (0..input.length()?)
            .map(|_| {
                input.element::<(K, V)>()?;
                Ok((K::get(input)?, V::get(input)?))
            })
            .collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok((A::get(input)?, B::get(input)?, C::get(input)?))
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(if bool::get(input)? { Ok(T::get(input)?) } else { Err(E::get(input)?) })
    }
}

impl Wire for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let (seconds, nanos) = <(u64, u32)>::get(input)?;
        if nanos < 1_000_000_000 { Ok(Self::new(seconds, nanos)) } else { Err(Malformed) }
    }
}
