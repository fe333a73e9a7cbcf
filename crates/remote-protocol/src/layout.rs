//! The layout of chunks, as far as it says which other chunks they name. The parsers are safe on any bytes.
//!
//! Integers are little-endian. Every chunk has to fit exactly: nothing is missing at its end, and nothing follows it.

use crate::Hash;
use crate::input::{Input, Malformed};

/// Maximum number of the parents of a commit.
const MAX_PARENTS: u8 = 8;
/// Number of tables and indexes that a catalog stays below.
const CATALOG_ENTRIES: u32 = 10_000;
/// Maximum number of the entries of a node.
const MAX_NODE_ENTRIES: u16 = 4096;
/// The first four bytes of a node.
const NODE_MAGIC: u32 = 0x504E_4F44;

/// Flags of a node.
mod node_flags {
    pub(super) const INTEGER_KEYS: u8 = 1;
    pub(super) const BYTE_KEYS: u8 = 2;
    pub(super) const COUNTS: u8 = 4;
}

/// A commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    /// Its parents.
    pub parents: Vec<Hash>,
    /// The list of its tables and indexes.
    pub catalog: Hash,
    /// Its date, in seconds since the start of 1970.
    pub seconds: i64,
    /// The name of its author.
    pub author: &'a [u8],
    /// The email address of its author.
    pub address: &'a [u8],
    /// Its message.
    pub message: &'a [u8],
}

/// A node of the tree of a table or an index.
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    /// Distance from the leaves, which have level 0.
    pub level: u8,
    /// The nodes of the level below. Empty in a leaf.
    pub children: Vec<Hash>,
}

/// Parses a commit.
///
/// # Errors
/// [`Malformed`].
pub fn commit(bytes: &[u8]) -> Result<Commit<'_>, Malformed> {
    let mut rest = Input(bytes);
    if rest.u8()? != 2 {
        return Err(Malformed("it is no commit"));
    }
    let parents = rest.u8()?;
    if parents > MAX_PARENTS {
        return Err(Malformed("the commit has more than 8 parents"));
    }
    let parents = (0..parents).map(|_| rest.hash()).collect::<Result<_, _>>()?;
    let catalog = rest.hash()?;
    let seconds = rest.array().map(i64::from_le_bytes)?;
    let (author, address, message) = (short_text(&mut rest)?, short_text(&mut rest)?, short_text(&mut rest)?);
    rest.end()?;
    Ok(Commit { parents, catalog, seconds, author, address, message })
}

/// Takes a text that follows its length in two bytes.
fn short_text<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    let length = input.u16()?;
    input.take(length.into())
}

/// A table, an index or another object that a catalog names.
#[derive(Debug, PartialEq, Eq)]
pub struct CatalogEntry<'a> {
    /// The root of its tree, a node of any level.
    pub root: Hash,
    /// Changes with its definition. Not the hash of a chunk.
    pub definition: Hash,
    /// The type of the object, for example `table`. Empty in the oldest format, which can only describe tables.
    pub kind: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
}

/// Parses a catalog. Returns the roots of the trees of its tables and indexes, nodes of any level.
///
/// # Errors
/// [`Malformed`].
pub fn catalog(bytes: &[u8]) -> Result<Vec<Hash>, Malformed> {
    let mut roots = Vec::new();
    each_entry(bytes, |entry| roots.push(entry.root))?;
    Ok(roots)
}

/// Parses a catalog, and passes its entries to `each` in order.
///
/// # Errors
/// [`Malformed`]. Entries may have been passed before.
pub fn each_entry<'a>(bytes: &'a [u8], mut each: impl FnMut(CatalogEntry<'a>)) -> Result<(), Malformed> {
    let mut rest = Input(bytes);
    let format = rest.u8()?;
    if !(0x44..=0x46).contains(&format) {
        return Err(Malformed("it is no catalog"));
    }
    let entries = rest.u32()?;
    if entries >= CATALOG_ENTRIES {
        return Err(Malformed("the catalog has 10,000 entries or more"));
    }
    if format == 0x46 {
        rest.take(8)?;
    }
    for _ in 0..entries {
        let _number_and_flags = rest.take(5)?;
        let (root, definition) = (rest.hash()?, rest.hash()?);
        let [kind, name, table] =
            if format == 0x44 { [0, rest.u16()?, 0] } else { [rest.u16()?, rest.u16()?, rest.u16()?] };
        let (kind, name) = (rest.take(kind.into())?, rest.take(name.into())?);
        rest.take(table.into())?;
        each(CatalogEntry { root, definition, kind, name });
    }
    rest.end()
}

/// Parses a node.
///
/// # Errors
/// [`Malformed`].
pub fn node(bytes: &[u8]) -> Result<Node, Malformed> {
    let mut rest = Input(bytes);
    if rest.u32()? != NODE_MAGIC {
        return Err(Malformed("it is no node"));
    }
    let (level, entries, flags) = (rest.u8()?, rest.u16()?, rest.u8()?);
    let has_integer_keys = flags & node_flags::INTEGER_KEYS != 0;
    let has_counts = flags & node_flags::COUNTS != 0;
    if entries > MAX_NODE_ENTRIES {
        return Err(Malformed("the node has more than 4,096 entries"));
    }
    if has_integer_keys == (flags & node_flags::BYTE_KEYS != 0) {
        return Err(Malformed("the node has no kind of keys, or two"));
    }
    if level == 0 && has_counts {
        return Err(Malformed("the leaf has counts"));
    }
    if entries == 0 {
        if level > 0 {
            return Err(Malformed("the node has no entries although it is no leaf"));
        }
        rest.end()?;
        return Ok(Node { level, children: Vec::new() });
    }
    let keys = ends(&mut rest, entries, has_integer_keys.then_some(8))?;
    let values = ends(&mut rest, entries, (level > 0).then_some(20))?;
    rest.take(keys)?;
    let values = rest.take(values)?;
    if has_counts {
        rest.take(usize::from(entries) * 8)?;
    }
    rest.end()?;
    let children = if level == 0 { Vec::new() } else { values.as_chunks().0.to_vec() };
    Ok(Node { level, children })
}

/// Where a key is, as a node says.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Neither in the node nor below it.
    Nothing,
    /// Below this node, if anywhere.
    Below(Hash),
    /// In the node, with this value.
    Value(&'a [u8]),
}

/// Looks for a key in a node. Keys are compared byte by byte: those of integers have eight bytes, the highest first, with the sign
/// inverted. Parses only what the search needs.
///
/// # Errors
/// [`Malformed`].
pub fn find<'a>(bytes: &'a [u8], key: &[u8]) -> Result<Found<'a>, Malformed> {
    let mut rest = Input(bytes);
    if rest.u32()? != NODE_MAGIC {
        return Err(Malformed("it is no node"));
    }
    let (level, entries, _flags) = (rest.u8()?, usize::from(rest.u16()?), rest.u8()?);
    if entries == 0 {
        return Ok(Found::Nothing);
    }
    let (key_ends, value_ends) = (rest.take((entries + 1) * 4)?, rest.take((entries + 1) * 4)?);
    let keys = rest.take(offset(key_ends, entries)?)?;
    let values = rest.take(offset(value_ends, entries)?)?;
    // The first key that is not less: in a node above the leaves, each key is the last one below a child.
    let (mut low, mut high) = (0, entries);
    while low < high {
        let middle = low + (high - low) / 2;
        if piece(keys, key_ends, middle)? < key { low = middle + 1 } else { high = middle }
    }
    if low == entries {
        return Ok(Found::Nothing);
    }
    let value = piece(values, value_ends, low)?;
    if level > 0 {
        return value.try_into().map(Found::Below).map_err(|_| Malformed("a child of the node has no hash"));
    }
    Ok(if piece(keys, key_ends, low)? == key { Found::Value(value) } else { Found::Nothing })
}

/// Returns the n-th of offsets.
fn offset(ends: &[u8], number: usize) -> Result<usize, Malformed> {
    let bytes = ends.as_chunks::<4>().0.get(number).ok_or(Malformed("an offset of the node is missing"))?;
    usize::try_from(u32::from_le_bytes(*bytes)).map_err(|_| Malformed("the node is too long"))
}

/// Returns the n-th key or value.
fn piece<'a>(all: &'a [u8], ends: &[u8], number: usize) -> Result<&'a [u8], Malformed> {
    all.get(offset(ends, number)?..offset(ends, number + 1)?)
        .ok_or(Malformed("a key or value of the node ends before it begins"))
}

/// Parses where the keys or values of a node end, each relative to the first. Checks that none ends before the one before
/// it does and, if `length` is set, that each is as long. Returns their length in all.
fn ends(rest: &mut Input<'_>, entries: u16, length: Option<u32>) -> Result<usize, Malformed> {
    let mut before = rest.u32()?;
    if before != 0 {
        return Err(Malformed("the first key or value of the node does not begin at 0"));
    }
    for _ in 0..entries {
        let end = rest.u32()?;
        let Some(own) = end.checked_sub(before) else {
            return Err(Malformed("a key or value of the node ends before it begins"));
        };
        if length.is_some_and(|length| length != own) {
            return Err(Malformed("a key or value of the node has a wrong length"));
        }
        before = end;
    }
    usize::try_from(before).map_err(|_| Malformed("the node is too long"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::NO_HASH;

    const A: Hash = [0xa; 20];
    const B: Hash = [0xb; 20];

    fn a_commit(parents: &[Hash]) -> Vec<u8> {
        let mut bytes = vec![2, u8::try_from(parents.len()).unwrap()];
        parents.iter().for_each(|parent| bytes.extend(parent));
        bytes.extend(B);
        bytes.extend(1_767_323_045_i64.to_le_bytes());
        for text in ["Ana", "ana@x.org", "first"] {
            bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    fn a_catalog(format: u8) -> Vec<u8> {
        let mut bytes = vec![format, 2, 0, 0, 0];
        if format == 0x46 {
            bytes.extend([7; 8]);
        }
        for root in [A, NO_HASH] {
            bytes.extend([1, 0, 0, 0, 0]);
            bytes.extend(root);
            bytes.extend([9; 20]);
            let lengths: &[u16] = if format == 0x44 { &[5] } else { &[5, 0, 2] };
            lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
            bytes.resize(bytes.len() + usize::from(lengths.iter().sum::<u16>()), b'x');
        }
        bytes
    }

    fn a_node(level: u8, flags: u8, keys: &[&[u8]], values: &[&[u8]]) -> Vec<u8> {
        let mut bytes = NODE_MAGIC.to_le_bytes().to_vec();
        bytes.push(level);
        bytes.extend(u16::try_from(keys.len()).unwrap().to_le_bytes());
        bytes.push(flags);
        for parts in [keys, values].iter().filter(|parts| !parts.is_empty()) {
            let mut end = 0;
            bytes.extend(0_u32.to_le_bytes());
            for part in *parts {
                end += u32::try_from(part.len()).unwrap();
                bytes.extend(end.to_le_bytes());
            }
        }
        [keys, values].iter().flat_map(|parts| parts.iter()).for_each(|part| bytes.extend(*part));
        if flags & node_flags::COUNTS != 0 {
            bytes.resize(bytes.len() + 8 * keys.len(), 1);
        }
        bytes
    }

    /// Chunks of every kind.
    fn all() -> Vec<Vec<u8>> {
        let keys: &[&[u8]] = &[&[1; 8], &[2; 8]];
        vec![
            a_commit(&[]),
            a_commit(&[A, B]),
            a_catalog(0x44),
            a_catalog(0x45),
            a_catalog(0x46),
            a_node(0, node_flags::BYTE_KEYS, &[], &[]),
            a_node(0, node_flags::INTEGER_KEYS, keys, &[b"one", b""]),
            a_node(0, node_flags::BYTE_KEYS, &[b"k", b"longer"], &[b"", b"v"]),
            a_node(3, node_flags::INTEGER_KEYS | node_flags::COUNTS, keys, &[&A, &B]),
        ]
    }

    fn parse(bytes: &[u8]) -> Result<Vec<Hash>, Malformed> {
        match bytes.first() {
            Some(2) => commit(bytes).map(|commit| [commit.parents, vec![commit.catalog]].concat()),
            Some(0x44) if bytes.get(1..4) == Some(b"ONP") => node(bytes).map(|node| node.children),
            _ => catalog(bytes),
        }
    }

    #[test]
    fn chunks_of_every_kind_name_their_children() {
        let none = NO_HASH;
        let expected: [&[Hash]; 9] = [&[B], &[A, B, B], &[A, none], &[A, none], &[A, none], &[], &[], &[], &[A, B]];
        for (bytes, children) in all().iter().zip(expected) {
            assert_eq!(parse(bytes).unwrap(), children, "{bytes:x?}");
        }
        assert_eq!(node(all().last().unwrap()).unwrap().level, 3);
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_no_chunk() {
        for bytes in all() {
            for length in 0..bytes.len() {
                assert!(parse(&bytes[..length]).is_err(), "{length} of {bytes:x?}");
            }
            assert!(parse(&[&bytes[..], &[0]].concat()).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn entries_of_a_catalog_have_a_kind_and_a_name() {
        for (format, kind, name) in [(0x44, "", "xxxxx"), (0x46, "xxxxx", "")] {
            let (bytes, mut entries) = (a_catalog(format), Vec::new());
            each_entry(&bytes, |entry| entries.push(entry)).unwrap();
            let (kind, name) = (kind.as_bytes(), name.as_bytes());
            let expected = [A, NO_HASH].map(|root| CatalogEntry { root, definition: [9; 20], kind, name });
            assert_eq!(entries, expected);
        }
    }

    #[test]
    fn a_key_is_found_in_a_leaf_and_below_a_node() {
        let keys: &[&[u8]] = &[b"b", b"bb", b"d"];
        let leaf = a_node(0, node_flags::BYTE_KEYS, keys, &[b"1", b"", b"3"]);
        let above = a_node(1, node_flags::BYTE_KEYS | node_flags::COUNTS, keys, &[&A, &B, &A]);
        for (key, value, child) in [
            (&b"a"[..], None, Some(A)),
            (b"b", Some(&b"1"[..]), Some(A)),
            (b"ba", None, Some(B)),
            (b"bb", Some(b""), Some(B)),
            (b"c", None, Some(A)),
            (b"d", Some(b"3"), Some(A)),
            (b"da", None, None),
        ] {
            assert_eq!(find(&leaf, key), Ok(value.map_or(Found::Nothing, Found::Value)), "{key:?}");
            assert_eq!(find(&above, key), Ok(child.map_or(Found::Nothing, Found::Below)), "{key:?}");
        }
        assert_eq!(find(&a_node(0, node_flags::BYTE_KEYS, &[], &[]), b"a"), Ok(Found::Nothing));
    }

    #[test]
    fn limits_of_chunks_hold() {
        assert!(commit(&a_commit(&[A; 8])).is_ok());
        assert_eq!(commit(&a_commit(&[A; 9])), Err(Malformed("the commit has more than 8 parents")));
        let mut many = vec![0x44];
        many.extend(10_000_u32.to_le_bytes());
        assert_eq!(catalog(&many), Err(Malformed("the catalog has 10,000 entries or more")));
        let entries = |count| a_node(0, node_flags::BYTE_KEYS, &vec![&b"k"[..]; count], &vec![&b""[..]; count]);
        assert!(node(&entries(4096)).is_ok());
        assert_eq!(node(&entries(4097)), Err(Malformed("the node has more than 4,096 entries")));
    }

    #[test]
    fn nodes_that_contradict_themselves_are_refused() {
        let keys: &[&[u8]] = &[&[1; 8]];
        for (bytes, reason) in [
            (a_node(0, 0, keys, &[b"v"]), "the node has no kind of keys, or two"),
            (a_node(0, 3, keys, &[b"v"]), "the node has no kind of keys, or two"),
            (a_node(0, 5, keys, &[b"v"]), "the leaf has counts"),
            (a_node(1, 1, &[], &[]), "the node has no entries although it is no leaf"),
            (a_node(0, 1, &[b"seven.."], &[b"v"]), "a key or value of the node has a wrong length"),
            (a_node(1, 1, keys, &[b"v"]), "a key or value of the node has a wrong length"),
        ] {
            assert_eq!(node(&bytes), Err(Malformed(reason)));
        }
        let mut falls = a_node(0, 2, &[b"k", b"l"], &[b"", b""]);
        falls[16..20].copy_from_slice(&0_u32.to_le_bytes());
        falls[12..16].copy_from_slice(&2_u32.to_le_bytes());
        assert_eq!(node(&falls), Err(Malformed("a key or value of the node ends before it begins")));
        let mut shifted = a_node(0, 2, &[b"k"], &[b""]);
        shifted[8] = 1;
        assert_eq!(node(&shifted), Err(Malformed("the first key or value of the node does not begin at 0")));
    }

    proptest! {
        /// No bytes make a parser panic.
        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>, which in 0..9_usize, at: prop::sample::Index, byte: u8) {
            let mut mutated = all().swap_remove(which);
            let at = at.index(mutated.len());
            mutated[at] = byte;
            for bytes in [&bytes, &mutated] {
                let _ = (commit(bytes), catalog(bytes), node(bytes), find(bytes, &[1; 8]));
            }
        }
    }
}
