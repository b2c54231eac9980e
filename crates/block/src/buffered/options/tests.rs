use super::*;

#[test]
fn what_cannot_work_is_refused_with_its_reason() {
    let good = BufferOptions::default();
    good.check().expect("the default works");
    let bad = [
        (BufferOptions { buffers: 0, ..good }, "0 buffers"),
        (BufferOptions { buffers: 1025, ..good }, "1025 buffers"),
        (BufferOptions { buffer_bytes: 0, ..good }, "a size of 0 bytes"),
        (BufferOptions { buffer_bytes: 5000, ..good }, "a size of 5000 bytes"),
        (BufferOptions { stride_bytes: 512, ..good }, "a stride of 512 bytes"),
        (BufferOptions { high: 1.5, ..good }, "watermarks 0.1 and 1.5"),
        (BufferOptions { low: 0.7, ..good }, "watermarks 0.7 and 0.7"),
        (BufferOptions { low: f64::NAN, ..good }, "watermarks NaN"),
    ];
    for (options, message) in bad {
        let error = options.check().expect_err("refused").to_string();
        assert!(error.contains(message), "{error}");
    }
}
