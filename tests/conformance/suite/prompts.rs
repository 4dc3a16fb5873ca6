//! The prompts of the suite. Their names and texts are those of the suite.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
        PromptMessage, ResourceContents, Role,
    },
    service::RequestContext,
};

use super::{
    input_requests::{self, FixtureTurn},
    media::PNG,
};

/// A prompt of the suite. All of its arguments are required.
#[derive(Clone, Copy)]
struct FixturePrompt {
    name: &'static str,
    description: &'static str,
    arguments: &'static [&'static str],
}

const PROMPTS: [FixturePrompt; 5] = [
    FixturePrompt { name: "test_simple_prompt", description: "Has no arguments", arguments: &[] },
    FixturePrompt {
        name: "test_prompt_with_arguments",
        description: "Repeats two arguments",
        arguments: &["arg1", "arg2"],
    },
    FixturePrompt {
        name: "test_prompt_with_embedded_resource",
        description: "Holds a resource",
        arguments: &["resourceUri"],
    },
    FixturePrompt { name: "test_prompt_with_image", description: "Holds an image", arguments: &[] },
    FixturePrompt { name: input_requests::PROMPT, description: "Asks the user before it is rendered", arguments: &[] },
];

/// The listed prompts.
pub(super) fn prompts() -> Vec<Prompt> {
    PROMPTS
        .map(|FixturePrompt { name, description, arguments }| {
            let arguments = arguments.iter().map(|name| PromptArgument::new(*name).with_required(true)).collect();
            Prompt::new(name, Some(description), Some(arguments))
        })
        .to_vec()
}

/// Renders a fixture prompt; `None` for any other prompt.
pub(super) async fn get_prompt(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    let FixturePrompt { name, arguments: required, .. } =
        PROMPTS.into_iter().find(|prompt| prompt.name == request.name)?;
    let argument = |name: &str| request.arguments.as_ref()?.get(name)?.as_str();
    if let Some(missing) = required.iter().find(|name| argument(name).is_none()) {
        return Some(Err(ErrorData::invalid_params(format!("{name} needs the argument {missing}"), None)));
    }
    let argument = |name: &str| argument(name).unwrap_or_default();
    let contents = match name {
        "test_simple_prompt" => vec![ContentBlock::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![ContentBlock::text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text("Embedded resource content for testing.", argument("resourceUri"));
            vec![
                ContentBlock::resource(resource.with_mime_type("text/plain")),
                ContentBlock::text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            vec![ContentBlock::image(PNG, "image/png"), ContentBlock::text("Please analyze the image above.")]
        }
        _ => match input_requests::next_turn(request.into(), context).await {
            Ok(FixtureTurn::Ask(questions)) => return Some(Ok(questions.into())),
            Ok(FixtureTurn::Conclude(text)) => vec![ContentBlock::text(text)],
            Err(error) => return Some(Err(error)),
        },
    };
    let messages = contents.into_iter().map(|content| PromptMessage::new(Role::User, content)).collect();
    Some(Ok(GetPromptResult::new(messages).into()))
}
