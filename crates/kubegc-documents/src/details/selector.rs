//! Label selectors.

use kubegc_core::{LabelRequirement, LabelSelector, json::JsonType};
use serde_json::{Value, json};

use super::{
    facts::Fact,
    reading::{At, Reading, Unreadable},
};

impl Fact for LabelSelector {
    const TYPE: JsonType = JsonType::Map;

    /// One that is absent is empty.
    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        reading.map(at)?;
        Ok(Self {
            match_labels: reading.labels(at.field("matchLabels"))?,
            match_expressions: Fact::read(reading, at.field("matchExpressions"))?,
        })
    }

    fn write(&self) -> Value {
        json!({ "matchLabels": self.match_labels, "matchExpressions": self.match_expressions.write() })
    }
}

impl Fact for LabelRequirement {
    const TYPE: JsonType = JsonType::Map;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        let key = reading.text_or_empty(at.field("key"))?;
        let values = reading.all_texts(at.field("values"))?;
        let operator = reading.text_or_empty(at.field("operator"))?;
        Self::new(key, &operator, values)
            .ok_or_else(|| reading.bad(at.field("operator"), "not an operator of label selectors"))
    }

    fn write(&self) -> Value {
        json!({ "key": self.key, "operator": self.operator(), "values": self.values })
    }
}
