//! Kinds that are Python classes: their keys, gauges and calls.
//!
//! `weir/_kinds.py` reads keys from the constructor's signature, and hands an instance's methods over as a dict. Numbers cross the boundary
//! as whole numbers in base units: bytes, picoseconds, bits a second, 2^-16 for α.

use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_nic::parameters::{Parameters, TIMES};
use weir_reader::{AnyKey, Gauge, Key, Keys, Table, Unit};
use weir_units::{Alpha, BitRate, Bytes, Span, UnitError};

/// Class that files select by name, as the registries hold it: for the life of the process.
pub(crate) struct PythonKind {
    /// Name in files.
    pub name: &'static str,
    /// Keys of the kind's table.
    pub keys: Keys,
    /// Gauges that its instances report.
    pub gauges: &'static [Gauge],
    /// First line of the class's documentation.
    pub description: String,
    typed_keys: Vec<TypedKey>,
    /// Function of the keys' values and a context that returns the methods of a new instance.
    create: Py<PyAny>,
    on_error: ExceptionHandler,
}

/// Reaction to an exception in a method, which has no way to report it.
pub(crate) enum ExceptionHandler {
    /// Calls a function with the exception, and ends the process.
    End(Py<PyAny>),
    /// Keeps the first exception for the caller.
    Keep(Mutex<Option<PyErr>>),
}

/// Method of an instance.
#[derive(Debug)]
pub(crate) struct PythonMethod {
    kind: &'static PythonKind,
    name: &'static str,
    function: Py<PyAny>,
}

/// Methods of an instance: those that its class defines.
#[derive(Debug)]
pub(crate) struct PythonMethods(Py<PyDict>);

/// Value of a key, in base units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum KeyValue {
    Integer(u64),
    Float(f64),
    Boolean(bool),
    Word(&'static str),
}

/// Values of a kind's table, by key.
pub(crate) type KeyValues = Vec<(&'static str, KeyValue)>;

/// Declaration of a class by `weir/_kinds.py`: name, keys, gauges, description, and the function that creates an instance.
pub(crate) type KindSpec = (String, Vec<KeySpec>, Vec<GaugeSpec>, String, Py<PyAny>);

/// Declaration of a key: name, type, words of a choice, default in a file's syntax, help.
type KeySpec = (String, String, Vec<String>, Option<String>, String);

/// Declaration of a gauge: name, labels in the state and out of it if it is one, title, help, whether it is of a port.
type GaugeSpec = (String, Option<(String, String)>, String, String, bool);

/// Key with the type of its values.
#[derive(Clone, Copy, Debug)]
enum TypedKey {
    Alpha(&'static Key<Alpha>),
    Size(&'static Key<Bytes>),
    Time(&'static Key<Span>),
    Rate(&'static Key<BitRate>),
    Integer(&'static Key<u32>),
    Float(&'static Key<Float>),
    Boolean(&'static Key<bool>),
    Choice(&'static Key<&'static str>),
}

/// Value of a key of type `float`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Float(f64);

impl FromStr for Float {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Float, UnitError> {
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.map(Float).ok_or_else(|| UnitError::new(text, "a number", "0.5"))
    }
}

impl Debug for PythonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonKind").field(&self.name).finish()
    }
}

impl PythonKind {
    /// Creates a kind that lives as long as the process.
    pub(crate) fn leak(spec: KindSpec, on_error: ExceptionHandler) -> PyResult<&'static PythonKind> {
        let (name, keys, gauges, description, create) = spec;
        let typed_keys = keys.into_iter().map(TypedKey::leak).collect::<PyResult<Vec<_>>>()?;
        let keys: Vec<&'static dyn AnyKey> = typed_keys.iter().map(TypedKey::any_key).collect();
        let gauges: Vec<Gauge> = gauges.into_iter().map(gauge).collect();
        Ok(Box::leak(Box::new(PythonKind {
            name: name.leak(),
            keys: keys.leak(),
            gauges: gauges.leak(),
            description,
            typed_keys,
            create,
            on_error,
        })))
    }

    /// Reads the values of a switch's table. Invalid ones are recorded in the document, and absent.
    pub(crate) fn values_of_table(&self, table: &Table<'_>) -> KeyValues {
        self.typed_keys.iter().filter_map(|key| Some((key.any_key().name(), key.of_table(table)?))).collect()
    }

    /// Reads the values of a flow's parameters. Invalid ones are recorded there.
    pub(crate) fn values_of_parameters(&self, parameters: &Parameters<'_>) -> KeyValues {
        self.typed_keys.iter().map(|key| (key.any_key().name(), key.of_parameters(parameters))).collect()
    }

    /// Creates an instance. `context` sets the constructor's further arguments.
    pub(crate) fn create(
        &'static self,
        values: &KeyValues,
        context: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
    ) -> Result<PythonMethods, PyErr> {
        Python::attach(|py| {
            let (keys, around) = (PyDict::new(py), PyDict::new(py));
            for (name, value) in values {
                match value {
                    KeyValue::Integer(value) => keys.set_item(name, value)?,
                    KeyValue::Float(value) => keys.set_item(name, value)?,
                    KeyValue::Boolean(value) => keys.set_item(name, value)?,
                    KeyValue::Word(value) => keys.set_item(name, value)?,
                }
            }
            context(&around)?;
            let methods = self.create.bind(py).call1((keys, around))?;
            Ok(PythonMethods(methods.cast_into::<PyDict>()?.unbind()))
        })
    }

    /// Reports an exception. Returns only if the caller asks for exceptions at its end.
    pub(crate) fn fail(&self, py: Python<'_>, error: PyErr) {
        match &self.on_error {
            ExceptionHandler::End(report) => {
                if let Err(other) = report.call1(py, (self.name, error)) {
                    other.print(py);
                }
                std::process::exit(1);
            }
            ExceptionHandler::Keep(kept) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    }

    /// Returns the first exception since the last call.
    pub(crate) fn take_error(&self) -> Option<PyErr> {
        match &self.on_error {
            ExceptionHandler::End(_) => None,
            ExceptionHandler::Keep(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }

    /// Whether an exception is kept, so that further calls are pointless.
    pub(crate) fn has_failed(&self) -> bool {
        match &self.on_error {
            ExceptionHandler::End(_) => false,
            ExceptionHandler::Keep(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).is_some(),
        }
    }
}

impl PythonMethods {
    /// Method of this name, if the class defines it.
    pub(crate) fn find(&self, kind: &'static PythonKind, name: &'static str) -> Option<PythonMethod> {
        let function = Python::attach(|py| self.0.bind(py).get_item(name).ok().flatten().map(Bound::unbind));
        function.map(|function| PythonMethod { kind, name, function })
    }

    /// Result of a method without arguments, or `default` if the class does not define it.
    pub(crate) fn ask<R: for<'a, 'py> FromPyObject<'a, 'py>>(
        &self,
        kind: &'static PythonKind,
        name: &'static str,
        default: R,
    ) -> R {
        match self.find(kind, name) {
            Some(method) => method.call((), default, |value| value.extract().map_err(Into::into)),
            None => default,
        }
    }
}

impl PythonMethod {
    /// Calls the method and reads its result; `otherwise` after an exception.
    #[inline]
    pub(crate) fn call<R>(
        &self,
        arguments: impl for<'py> PyCallArgs<'py>,
        otherwise: R,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> R {
        Python::attach(|py| {
            if self.kind.has_failed() {
                return otherwise;
            }
            match self.function.bind(py).call1(arguments).and_then(|value| read(&value)) {
                Ok(value) => value,
                Err(error) => {
                    self.kind.fail(py, error);
                    otherwise
                }
            }
        })
    }

    /// Calls the method for a value of each gauge, and reads each; `otherwise` after an exception.
    pub(crate) fn gauge_values<R>(
        &self,
        arguments: impl for<'py> PyCallArgs<'py>,
        otherwise: Vec<R>,
        read: impl Fn(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Vec<R> {
        let declared = self.kind.gauges.len();
        self.call(arguments, otherwise, |values| {
            let values: Vec<R> = values.try_iter()?.map(|value| read(&value?)).collect::<PyResult<_>>()?;
            let message = || {
                format!("{} returned {} values; return one for each of the {declared} gauges", self.name, values.len())
            };
            if values.len() == declared { Ok(values) } else { Err(PyValueError::new_err(message())) }
        })
    }

    /// Calls the method for a whole number of at least `least`.
    #[inline]
    pub(crate) fn unsigned(&self, arguments: impl for<'py> PyCallArgs<'py>, least: u64) -> u64 {
        self.call(arguments, least, |value| unsigned(value, self.name, least))
    }
}

/// Reads a whole number of at least `least`; `of` is the method that returned it.
pub(crate) fn unsigned(value: &Bound<'_, PyAny>, of: &str, least: u64) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(number) if number >= least => Ok(number),
        result => {
            let shown = value.repr().map_or_else(|_| "a value".to_owned(), |shown| shown.to_string());
            let message = format!("{of} returned {shown}; return a whole number from {least} to {}", u64::MAX);
            Err(match result {
                Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => PyTypeError::new_err(message),
                _ => PyValueError::new_err(message),
            })
        }
    }
}

impl TypedKey {
    fn leak((name, values, choices, default, help): KeySpec) -> PyResult<TypedKey> {
        let (name, help): (&'static str, &'static str) = (name.leak(), help.leak());
        let default: Option<&'static str> = default.map(|text| &*text.leak());
        macro_rules! leak {
            ($key:expr) => {{
                let key = $key;
                let key = match default {
                    Some(default) => key.or(default),
                    None => key,
                };
                if !key.has_valid_default() {
                    let default = default.unwrap_or_default();
                    let message = format!("`{name}` has the default {default}; give it one of {}", key.values());
                    return Err(crate::Error::new_err(message));
                }
                &*Box::leak(Box::new(key))
            }};
        }
        let sizes = Bytes::ZERO..=Bytes::new(1 << 34);
        let rates = BitRate::bps(8_000)..=BitRate::gbps(3_200);
        Ok(match values.as_str() {
            "alpha" => TypedKey::Alpha(leak!(Key::alpha(name, help))),
            "size" => TypedKey::Size(leak!(Key::size(name, sizes, help))),
            "time" => TypedKey::Time(leak!(Key::time(name, Span::ZERO..=*TIMES.end(), help))),
            "rate" => TypedKey::Rate(leak!(Key::rate(name, rates, help))),
            "integer" => TypedKey::Integer(leak!(Key::<u32>::integer(name, 0..=u32::MAX, help))),
            "number" => TypedKey::Float(leak!(Key::number(name, "number", help))),
            "boolean" => TypedKey::Boolean(leak!(Key::boolean(name, help))),
            "choice" => {
                let choices: Vec<(&'static str, &'static str)> =
                    choices.into_iter().map(|word| &*word.leak()).map(|word| (word, word)).collect();
                TypedKey::Choice(leak!(Key::choice(name, choices.leak(), help)))
            }
            other => return Err(PyValueError::new_err(format!("no type of keys: {other}"))),
        })
    }

    fn any_key(&self) -> &'static dyn AnyKey {
        match self {
            TypedKey::Alpha(key) => *key,
            TypedKey::Size(key) => *key,
            TypedKey::Time(key) => *key,
            TypedKey::Rate(key) => *key,
            TypedKey::Integer(key) => *key,
            TypedKey::Float(key) => *key,
            TypedKey::Boolean(key) => *key,
            TypedKey::Choice(key) => *key,
        }
    }

    fn of_table(self, table: &Table<'_>) -> Option<KeyValue> {
        let name = self.any_key().name();
        if self.any_key().default().is_none() && !table.has(name) {
            table.refuse(name, "it has no default, and is not given", format!("write {name} in [{}]", table.path()));
            return None;
        }
        // Without a default the key is given, if perhaps wrong.
        macro_rules! value {
            ($key:expr) => {
                if $key.default.is_some() { Some(table.get($key)) } else { table.given($key) }
            };
        }
        match self {
            TypedKey::Alpha(key) => value!(key).map(|alpha| KeyValue::Integer(u64::from(alpha.to_bits()))),
            TypedKey::Size(key) => value!(key).map(|size| KeyValue::Integer(size.get())),
            TypedKey::Time(key) => value!(key).map(|time| KeyValue::Integer(time.as_picos())),
            TypedKey::Rate(key) => value!(key).map(|rate| KeyValue::Integer(rate.as_bps())),
            TypedKey::Integer(key) => value!(key).map(|number| KeyValue::Integer(u64::from(number))),
            TypedKey::Float(key) => value!(key).map(|number| KeyValue::Float(number.0)),
            TypedKey::Boolean(key) => value!(key).map(KeyValue::Boolean),
            TypedKey::Choice(key) => value!(key).map(KeyValue::Word),
        }
    }

    /// Reads the value of a flow. `add` refuses keys of flows without a default.
    fn of_parameters(self, parameters: &Parameters<'_>) -> KeyValue {
        match self {
            TypedKey::Alpha(key) => KeyValue::Integer(u64::from(parameters.converted(key).to_bits())),
            TypedKey::Size(key) => KeyValue::Integer(parameters.size(key).get()),
            TypedKey::Time(key) => KeyValue::Integer(parameters.time(key).as_picos()),
            TypedKey::Rate(key) => KeyValue::Integer(parameters.rate(key).as_bps()),
            TypedKey::Integer(key) => KeyValue::Integer(u64::from(parameters.integer(key))),
            TypedKey::Float(key) => KeyValue::Float(parameters.converted(key).0),
            TypedKey::Boolean(key) => KeyValue::Boolean(parameters.boolean(key)),
            TypedKey::Choice(key) => KeyValue::Word(parameters.choice(key)),
        }
    }
}

fn gauge((name, state, title, help, of_port): GaugeSpec) -> Gauge {
    let name: &'static str = name.leak();
    let title: &'static str = title.leak();
    let plain = Gauge::plain(name, help.leak());
    let unit = match state {
        Some((on, off)) => Unit::State { on: on.leak(), off: off.leak() },
        None => plain.unit,
    };
    Gauge { unit, title, of_port, ..plain }
}

/// Value of a quantity's text in base units.
#[pyfunction]
pub(crate) fn quantity(kind: &str, text: &str) -> PyResult<u64> {
    let value = match kind {
        "alpha" => text.parse().map(|alpha: Alpha| u64::from(alpha.to_bits())),
        "size" => text.parse().map(Bytes::get),
        "time" => text.parse().map(Span::as_picos),
        _ => text.parse().map(BitRate::as_bps),
    };
    value.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Text of a quantity, as files have it.
#[pyfunction]
pub(crate) fn quantity_text(kind: &str, value: u64) -> PyResult<String> {
    Ok(match kind {
        "size" => Bytes::new(value).to_string(),
        "time" => Span::from_picos(value).to_string(),
        _ if value == 0 => return Err(PyValueError::new_err("a rate is above 0")),
        _ => BitRate::bps(value).to_string(),
    })
}
