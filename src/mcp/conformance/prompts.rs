//! The prompts of the suite. Their names and texts are the suite's own.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
        PromptMessage, ResourceContents, Role,
    },
    service::RequestContext,
};

use super::{
    PNG,
    dialogue::{self, Turn},
};

const PROMPTS: [(&str, &str, &[&str]); 5] = [
    ("test_simple_prompt", "Has no arguments", &[]),
    ("test_prompt_with_arguments", "Repeats two arguments", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", "Holds a resource", &["resourceUri"]),
    ("test_prompt_with_image", "Holds an image", &[]),
    (dialogue::PROMPT, "Asks the user before it is rendered", &[]),
];

pub(super) fn all() -> Vec<Prompt> {
    PROMPTS
        .map(|(name, description, arguments)| {
            let arguments = arguments.iter().map(|name| PromptArgument::new(*name).with_required(true)).collect();
            Prompt::new(name, Some(description), Some(arguments))
        })
        .to_vec()
}

pub(super) async fn get(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    let (name, _, required) = PROMPTS.into_iter().find(|(name, ..)| *name == request.name)?;
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
        _ => match dialogue::turn(request.into(), context).await {
            Ok(Turn::Ask(questions)) => return Some(Ok(questions.into())),
            Ok(Turn::Conclude(text)) => vec![ContentBlock::text(text)],
            Err(error) => return Some(Err(error)),
        },
    };
    let messages = contents.into_iter().map(|content| PromptMessage::new(Role::User, content)).collect();
    Some(Ok(GetPromptResult::new(messages).into()))
}
