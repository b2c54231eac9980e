//! Extended attributes: all of a file in one blob, rewritten with each change.
//!
//! ```text
//! xattrs word   a page of the blob, or an index page of words that name its pages in order
//! blob          0 bytes u32   4 attributes u32   then each: 0 name_len u32   4 value_len u32   name   value
//! ```
//!
//! The blob is durable before the word that names it.

use ferrite_memory::Scheme;
use ferrite_pool::layout::PAGE;

use crate::format::inode::Inode;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::bits::pages_of;
use crate::store::change::FsChange;
use crate::tree::TreeLayer;
use crate::tree::acl::{self, ACCESS, DEFAULT};
use crate::{Error, Ino, Result, SetXattr};

/// Bytes of a value at most.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all attributes of a file at most.
const BLOB_BYTES_MAX: usize = 256 << 10;
const HEADER: usize = 8;
/// Names without this many bytes cannot be.
const NAME_BYTES_MAX: usize = 255;

/// Names and values.
pub(crate) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// See [`crate::FileSystem::xattr`].
pub(crate) fn xattr(tree: &TreeLayer, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
    ensure_known(name)?;
    let _stripe = tree.locks.read(ino);
    let xattrs = load_xattrs(tree, &tree.load(ino)?)?;
    xattrs.into_iter().find(|(known, _)| known == name).map(|(_, value)| value).ok_or(Error::NoAttribute)
}

/// See [`crate::FileSystem::xattrs`].
pub(crate) fn xattrs(tree: &TreeLayer, ino: Ino) -> Result<Vec<Vec<u8>>> {
    let _stripe = tree.locks.read(ino);
    Ok(load_xattrs(tree, &tree.load(ino)?)?.into_iter().map(|(name, _)| name).collect())
}

/// See [`crate::FileSystem::set_xattr`].
pub(crate) fn set_xattr(tree: &TreeLayer, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
    ensure_known(name)?;
    if name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(Error::Invalid("the name of an extended attribute is at most 255 bytes without zeros"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::AttributeTooBig);
    }
    change_xattrs(tree, ino, &mut |inode, xattrs| {
        let at = xattrs.iter().position(|(known, _)| known == name);
        match (at, how) {
            (Some(_), SetXattr::Create) => return Err(Error::Exists),
            (None, SetXattr::Replace) => return Err(Error::NoAttribute),
            _ => {}
        }
        if !acl::apply_acl(inode, name, value)? {
            xattrs.retain(|(known, _)| known != name);
            return Ok(());
        }
        match at {
            Some(at) => xattrs[at].1 = value.to_vec(),
            None => xattrs.push((name.to_vec(), value.to_vec())),
        }
        Ok(())
    })
}

/// See [`crate::FileSystem::remove_xattr`].
pub(crate) fn remove_xattr(tree: &TreeLayer, ino: Ino, name: &[u8]) -> Result<()> {
    ensure_known(name)?;
    change_xattrs(tree, ino, &mut |_, xattrs| {
        let at = xattrs.iter().position(|(known, _)| known == name).ok_or(Error::NoAttribute)?;
        xattrs.remove(at);
        Ok(())
    })
}

fn change_xattrs(
    tree: &TreeLayer,
    ino: Ino,
    edit: &mut dyn FnMut(&mut Inode, &mut Xattrs) -> Result<()>,
) -> Result<()> {
    tree.with_space(|| change_xattrs_locked(tree, ino, edit))
}

fn change_xattrs_locked(
    tree: &TreeLayer,
    ino: Ino,
    edit: &mut dyn FnMut(&mut Inode, &mut Xattrs) -> Result<()>,
) -> Result<()> {
    tree.refuse_if_read_only()?;
    let _pass = tree.gate.pass();
    let mut stripe = tree.locks.write(ino);
    let mut inode = tree.load(ino)?;
    stripe.apply_waiting(&mut inode);
    let mut xattrs = load_xattrs(tree, &inode)?;
    edit(&mut inode, &mut xattrs)?;
    inode.head.ctime = tree.now();
    let mut change = FsChange::new(tree);
    store_xattrs(tree, &mut change, &mut inode, &xattrs)?;
    change.write_inode(&mut inode);
    change.commit()?;
    stripe.wait_on(&inode);
    Ok(())
}

/// All extended attributes of a file.
pub(crate) fn load_xattrs(tree: &TreeLayer, inode: &Inode) -> Result<Xattrs> {
    if inode.rest.xattrs == 0 {
        return Ok(Vec::new());
    }
    let corrupt = || tree.corrupt("the extended attributes", inode.at);
    let pages = xattr_pages(tree, inode)?;
    let mut blob = vec![0; pages.len() * PAGE as usize];
    for (page, bytes) in pages.iter().zip(blob.chunks_mut(PAGE as usize)) {
        tree.memory().load(tree.place(*page)?, bytes);
    }
    decode(&blob).ok_or_else(corrupt)
}

/// The pages of the blob, in order.
pub(crate) fn xattr_pages(tree: &TreeLayer, inode: &Inode) -> Result<Vec<u64>> {
    let corrupt = || tree.corrupt("the extended attributes", inode.at);
    match IndexWord(inode.rest.xattrs).named() {
        NamedBy::Nothing => Ok(Vec::new()),
        NamedBy::Page(page) => Ok(vec![page]),
        NamedBy::Node(node) => {
            let words = tree.load_words(tree.place(node)?);
            let page = |word: &u64| match IndexWord(*word).named() {
                NamedBy::Page(page) => Ok(page),
                _ => Err(corrupt()),
            };
            words.iter().take_while(|word| **word != 0).map(page).collect()
        }
        _ => Err(corrupt()),
    }
}

/// Replaces the attributes of `inode` through `change`; the caller writes the inode.
pub(crate) fn store_xattrs(
    tree: &TreeLayer,
    change: &mut FsChange<'_>,
    inode: &mut Inode,
    xattrs: &Xattrs,
) -> Result<()> {
    let blob = encode(xattrs);
    if blob.len() > BLOB_BYTES_MAX {
        return Err(Error::AttributesFull);
    }
    free_xattrs(tree, change, inode)?;
    if xattrs.is_empty() {
        return Ok(());
    }
    let runs = change.allocate_data((blob.len() as u64).div_ceil(PAGE))?;
    let mut words = Vec::new();
    for (page, bytes) in pages_of(&runs).zip(blob.chunks(PAGE as usize)) {
        tree.memory().store(tree.place(page)?, bytes, Scheme::Nt);
        words.push(IndexWord::page(page));
    }
    tree.drain()?;
    inode.add_pages(words.len() as u64);
    inode.rest.xattrs = words[0].0;
    if words.len() > 1 {
        let (node, at) = change.allocate_index_page()?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.0.to_le_bytes()).collect();
        change.write(at, &bytes);
        inode.rest.xattrs = IndexWord::node(node).0;
        inode.add_pages(1);
    }
    Ok(())
}

/// Frees the attributes of `inode` through `change`.
pub(crate) fn free_xattrs(tree: &TreeLayer, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
    let pages = xattr_pages(tree, inode)?;
    pages.iter().for_each(|page| change.free_page(*page));
    let mut count = pages.len() as u64;
    if let NamedBy::Node(node) = IndexWord(inode.rest.xattrs).named() {
        change.free_page(node);
        count += 1;
    }
    inode.rest.xattrs = 0;
    inode.head.pages = inode.head.pages.saturating_sub(count);
    Ok(())
}

/// What names begin with; something is to follow.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Refuses names that no file of Linux's own has: programs ask so what there is.
fn ensure_known(name: &[u8]) -> Result<()> {
    match SPACES.iter().find_map(|space| name.strip_prefix(*space)) {
        Some(b"") => Err(Error::Invalid("the name of an extended attribute ends where it should begin")),
        Some(_) => Ok(()),
        None if name == ACCESS || name == DEFAULT => Ok(()),
        None => Err(Error::Unsupported("extended attributes are the user's, trusted, security's, or ACLs")),
    }
}

fn encode(xattrs: &Xattrs) -> Vec<u8> {
    let mut blob = vec![0; HEADER];
    for (name, value) in xattrs {
        blob.extend((name.len() as u32).to_le_bytes());
        blob.extend((value.len() as u32).to_le_bytes());
        blob.extend(name);
        blob.extend(value);
    }
    let len = blob.len() as u32;
    blob[..4].copy_from_slice(&len.to_le_bytes());
    blob[4..8].copy_from_slice(&(xattrs.len() as u32).to_le_bytes());
    blob
}

/// The attributes in `blob`, which may be anything.
pub(crate) fn decode(blob: &[u8]) -> Option<Xattrs> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let mut rest = blob.get(HEADER..word(blob, 0)?)?;
    let mut xattrs = Vec::new();
    for _ in 0..word(blob, 4)? {
        let (name_len, value_len) = (word(rest, 0)?, word(rest, 4)?);
        let name = rest.get(HEADER..HEADER.checked_add(name_len)?)?;
        let value = rest.get(HEADER + name_len..(HEADER + name_len).checked_add(value_len)?)?;
        rest = &rest[HEADER + name_len + value_len..];
        xattrs.push((name.to_vec(), value.to_vec()));
    }
    Some(xattrs)
}
