//! A disk that writes down what it is asked for, in a form other tools replay.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Access, Completion, Disk, Geometry, LayeredQueue, NotedRequest, Op, Queue, QueueLayer, Request, Run, Zeroing,
};
use ferrite_memory::{Error, Result, Span};

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// The format that `fio --read_iolog` replays (version 3, microseconds). A zeroing is written as a write.
    FioIolog,
    /// What `blkparse` prints: a line when a request is queued (Q) and one when it completes (C), in sectors of 512.
    Blkparse,
}

/// How to trace.
pub struct Trace<C> {
    /// How it is written.
    pub format: TraceFormat,
    /// The file or device the trace is said to be of; without blanks for fio.
    pub name: String,
    /// Nanoseconds since the trace began.
    pub clock_ns: C,
    /// Where it goes; buffered by the caller.
    pub to: Box<dyn Write + Send>,
}

/// Traces the requests to the disk under it. A trace that cannot be written fails no request: see [`TraceDisk::finish`].
pub struct TraceDisk<D, C> {
    inner: D,
    trace: Arc<RequestTrace<C>>,
}

/// The trace of a disk and its queues.
struct RequestTrace<C> {
    format: TraceFormat,
    name: String,
    clock_ns: C,
    log: Mutex<TraceLog>,
}

struct TraceLog {
    to: Box<dyn Write + Send>,
    lines: u64,
    state: io::Result<()>,
    finished: bool,
}

impl TraceLog {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.state.is_ok() && !self.finished {
            self.state = writeln!(self.to, "{line}");
        }
    }
}

/// One request as the formats name it.
#[derive(Clone, Copy)]
struct TracedRequest {
    fio: &'static str,
    rwbs: &'static str,
    span: Span,
}

impl TracedRequest {
    fn new(op: Op, span: Span) -> Self {
        let (fio, rwbs, access) = match op {
            Op::Read => ("read", ["R", "R"], Access::Cached),
            Op::Write(access) => ("write", ["W", "WF"], access),
            Op::Flush => ("sync", ["FN", "FN"], Access::Cached),
            Op::Trim(access) => ("trim", ["D", "DF"], access),
            Op::Zero(how) => ("write", ["WZ", "WZF"], how.access),
        };
        Self { fio, rwbs: rwbs[usize::from(access == Access::Fua)], span }
    }
}

impl<D: Disk, C: Fn() -> u64 + Send + Sync> TraceDisk<D, C> {
    /// `inner`, traced as `trace` says.
    pub fn new(inner: D, trace: Trace<C>) -> Self {
        let Trace { format, name, clock_ns, to } = trace;
        let mut log = TraceLog { to, lines: 0, state: Ok(()), finished: false };
        if format == TraceFormat::FioIolog {
            log.line(format_args!("fio version 3 iolog\n0 {name} add\n0 {name} open"));
        }
        Self { inner, trace: Arc::new(RequestTrace { format, name, clock_ns, log: Mutex::new(log) }) }
    }

    /// Ends the trace: what is asked for later is not written down.
    ///
    /// # Errors
    /// The first failure to write it.
    pub fn finish(&self) -> Result<()> {
        self.trace.finish()
    }
}

impl<C: Fn() -> u64> RequestTrace<C> {
    fn finish(&self) -> Result<()> {
        let now_us = (self.clock_ns)() / 1000;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if self.format == TraceFormat::FioIolog {
            log.line(format_args!("{now_us} {} close", self.name));
        }
        log.finished = true;
        let state = std::mem::replace(&mut log.state, Ok(()));
        state.and_then(|()| log.to.flush()).map_err(|why| Error::io(format!("writing the trace of {}", self.name), why))
    }

    fn begin(&self, op: Op, span: Span) {
        self.note('Q', TracedRequest::new(op, span), None);
    }

    fn end(&self, op: Op, span: Span, result: &Result<()>) {
        if self.format == TraceFormat::Blkparse {
            self.note('C', TracedRequest::new(op, span), Some(result.is_ok()));
        }
    }

    fn traced(&self, op: Op, span: Span, request: impl FnOnce() -> Result<()>) -> Result<()> {
        self.begin(op, span);
        let result = request();
        self.end(op, span, &result);
        result
    }

    fn note(&self, action: char, event: TracedRequest, succeeded: Option<bool>) {
        let (now_ns, TracedRequest { fio, rwbs, span }) = ((self.clock_ns)(), event);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.lines += 1;
        if self.format == TraceFormat::FioIolog {
            return log.line(format_args!("{} {} {fio} {} {}", now_ns / 1000, self.name, span.at, span.len));
        }
        let (seconds, rest_ns, number) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000, log.lines);
        let (sector, sectors) = (span.at / 512, span.len / 512);
        let who = match succeeded {
            None => &self.name,
            Some(true) => "0",
            Some(false) => "-5",
        };
        log.line(format_args!(
            "  0,0    0 {number:8} {seconds:5}.{rest_ns:09}     0 {action:>2} {rwbs:>3} {sector} + {sectors} [{who}]"
        ));
    }
}

impl<C: Fn() -> u64 + Send + Sync> QueueLayer for Arc<RequestTrace<C>> {
    fn admit(&mut self, request: &Request) -> Result<()> {
        self.begin(request.op, request.touched());
        Ok(())
    }

    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        self.end(request.op, request.touched, &completion.result);
    }
}

impl<D: Disk, C: Fn() -> u64 + Send + Sync + 'static> Disk for TraceDisk<D, C> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.trace.traced(Op::Read, Span::new(at, into.len() as u64), || self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.trace.traced(Op::Write(access), span, || self.inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.trace.traced(Op::Flush, Span::new(0, 0), || self.inner.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.trace.traced(Op::Trim(access), span, || self.inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.trace.traced(Op::Zero(how), span, || self.inner.write_zeroes(span, how))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        LayeredQueue::open(&self.inner, Arc::clone(&self.trace))
    }
}
