//! Questions to kubegc through a C ABI, for hosts in Python, Go, JavaScript and others. `caller.py` and
//! `caller.mjs` are such hosts.
//!
//! ```c
//! uint8_t *kubegc_answer(const uint8_t *question, size_t length, const char *path, size_t *answer_length);
//! uint8_t *kubegc_allocate(size_t length);
//! void kubegc_free(uint8_t *bytes, size_t length);
//! ```
//!
//! A question is a document `kubegc-question/1`, the answer a document `kubegc-answer/1`. The functions may
//! be called on several threads at once.
#![expect(unsafe_code, reason = "a C ABI")]

use std::{
    ffi::{CStr, c_char},
    path::Path,
    ptr, slice,
};

use kubegc::predict::document;

/// Answers a question.
///
/// `path` is a file or directory that is added to the dump of the question, or null. The caller frees the
/// answer with [`kubegc_free`].
///
/// # Safety
/// `question` is readable for `length` bytes, `answer_length` is writable, and `path` is null or ends with
/// NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kubegc_answer(
    question: *const u8,
    length: usize,
    path: *const c_char,
    answer_length: *mut usize,
) -> *mut u8 {
    // SAFETY: the caller gives a readable question.
    let question = unsafe { slice::from_raw_parts(question, length) };
    // SAFETY: the caller gives a text that ends with NUL, if it is not null.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_string_lossy());
    let path = path.as_deref().map(Path::new);
    let answer = document::answer(question, path.as_slice());
    // SAFETY: the caller gives a place for the length.
    unsafe { answer_length.write(answer.text.len()) };
    Box::into_raw(answer.text.into_bytes().into_boxed_slice()).cast()
}

/// Allocates memory for a question, for hosts that have none of their own, such as a web page. It is filled
/// with zeros. The caller frees it with [`kubegc_free`].
#[unsafe(no_mangle)]
pub extern "C" fn kubegc_allocate(length: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; length].into_boxed_slice()).cast()
}

/// Frees an answer or allocated memory.
///
/// # Safety
/// `bytes` and `length` are from one call of [`kubegc_answer`] or [`kubegc_allocate`], and were not freed
/// before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kubegc_free(bytes: *mut u8, length: usize) {
    // SAFETY: the caller gives what one of the functions returned.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(bytes, length)) });
}
