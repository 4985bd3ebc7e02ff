//! Label selectors.

use kubegc_core::{LabelRequirement, LabelSelector, json::JsonType};
use serde_json::{Value, json};

use super::{
    facts::{Fact, Plain},
    reading::{At, Reading, Unreadable},
};

map_of_facts! {
    LabelSelector {
        match_labels: "matchLabels" => Plain,
        match_expressions: "matchExpressions" => Plain,
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
