"""Which calls act, as rows of tables: by what is called, and by the client that a method is of."""

from __future__ import annotations

import re

from ratchet.wire.facts import EffectKind
from ratchet.wire.looking.method_words import READING, SETTING_UP, says_that_it_acts, words_of

_NAMED: tuple[tuple[EffectKind, str], ...] = (
    (
        "mail",
        r"sendmail|send_message$(?=.*smtp)"
        r"|messages\.(?:send|modify|batchModify|batchDelete|trash|untrash|insert|import_?)$"
        r"|users\.threads\.(?:modify|trash|untrash|delete)$"
        r"|drafts\.(?:create|send|update)$|send_(?:\w+_)?e?mail|sendMail|[eE]mails\.send"
        r"|GmailCreateDraft|GmailSend|GmailToolkit|GmailToolSpec|create_draft|send_raw_email"
        r"|smtplib",
    ),
    (
        "payment",
        r"stripe\.|paypal|braintree|PaymentIntent|checkout\.sessions\.create|refunds?\.create"
        r"|charges?\.create|submit_order$|create_(?:market|limit)_(?:\w+_)?order$"
        r"|send(?:_raw)?_transaction$|sendRawTransaction$",
    ),
    (
        "shell",
        r"^subprocess\.\w+$"
        r"|^os\.(?:system|popen|spawn\w*|posix_spawn\w*|exec[lv]\w*|startfile|kill\w*)$"
        r"|create_subprocess_|child_process|execSync|spawnSync|execFileSync|^execa|ShellTool"
        r"|BashTool|^pty\.spawn|^pexpect\.|paramiko|commands\.run$|MCPServerStdio"
        r"|StdioServerParam\w*|StdioClientTransport|stdio_client$"
        r"|[sS]andbox\.\w*(?:exec|run)\w*$|exec_command|exec_run$"
        r"|containers\.(?:run|create|stop|remove|kill)$|Deno\.Command$|Bun\.spawn(?:Sync)?$"
        r"|run_shell_command",
    ),
    (
        "exec",
        r"^(?:builtins\.)?(?:exec|eval)$|PythonREPL|PythonAstREPL"
        r"|(?:^|\.)(?:run_code|runCode|code_run|execCell|exec_cell)$|CodeInterpreter"
        r"|code_interpreter|codeInterpreter|codeExecution_?|E2B|e2b|runIn(?:New|This)?Context"
        r"|(?:CommandLine|Docker|Jupyter|Python|Local|Remote)\w*CodeExecutor"
        r"|CodeExecut(?:or|ion)\w*$|LocalPython(?:Interpreter|Executor)$"
        r"|create_(?:pandas_dataframe|csv|python|spark_dataframe)_agent$|PandasQueryEngine"
        r"|(?:dspy\S*)\.(?:ProgramOfThought|CodeAct|PythonInterpreter)$"
        r"|smolagents\.(?:\w+\.)*CodeAgent$|PythonAgent$|execute_cell$|ExecutePreprocessor",
    ),
    (
        "delete",
        r"^os\.(?:remove|unlink|rmdir|removedirs)$|shutil\.rmtree|\.unlink$|\.rmdir$|send2trash"
        r"|(?:fs\.|fsp\.|promises\.|^)(?:unlink|rm|rmdir)(?:Sync)?$|Deno\.remove(?:Sync)?$"
        r"|\.delete_\w+$|DeleteFileTool"
        r"|(?:files|assistants|threads|agents|vector_stores|collections?|objects?|blobs?|drafts|events|users?)\.delete$",
    ),
    (
        "post",
        r"(?:^|\.|_)(?:requests|httpx|session|axios|client|http|got|ky|superagent|\$fetch|ofetch)\.(?:\w+\.)?(?:post|put|patch|delete)$"
        r"|requests\.request$|[sS]haredPublicURL$|chat_postMessage|chat_update$|files_upload\w*$|chat\.postMessage"
        r"|\.run_(?:instances|task|job_flow)$|\.push_to_hub$|create_tweet|twilio\w*\.(?:\w+\.)*create$"
        r"|\.(?:create_issue|create_pull|create_comment)$"
        r"|events\.(?:insert|patch|update|move|quickAdd)$|SlackSend|send_webhook"
        r"|telegram\w*\.(?:\w+\.)*send\w*$"
        r"|langgraph_sdk\.\S*\.(?:create|update|update_state|delete|stream|wait|put_item)$"
        r"|MCPServer(?:SSE|HTTP|StreamableH\w+)"
        r"|(?:rudder\w*|analytics|posthog|mixpanel|amplitude|segment)\S*\.(?:track|capture|identify)$",
    ),
    (
        "post",  # Google's documents, sheets, files and videos; queues
        r"values\.(?:update|append|batchUpdate|clear)$|\.batchUpdate$"
        r"|(?:spreadsheets|documents|presentations|permissions|labels|filters)\.(?:create|update|patch|delete)$"
        r"|files\.(?:create|update|copy)$"
        r"|(?:videos|comments|commentThreads|playlists|playlistItems)\.insert$"
        r"|calendars\.(?:insert|update|patch)$|apply_async$|send_task$|basic_publish$",
    ),
    (
        "post",  # toolkits and servers of tools
        r"RequestsToolkit|Requests(?:Post|Put|Patch|Delete)\w*"
        r"|(?:Slack|O365|GitHub|GitLab|Jira|Office365|Zapier|ClickUp|Twilio|Multion|Gradio)\w*(?:Toolkit|APIWrapper|ToolSpec)$"
        r"|(?:GoogleCalendar|Slack|Notion|Requests|Zapier|Shopify|Jira|Discord)ToolSpec$"
        r"|Composio\w*$|ArcadeToolManager|ZapierActionTool|HostedMCPTool|hostedMcpTool"
        r"|MCPServerAdapter$|MultiServerMCPClient$|McpWorkbench$|MCPToolset$|MCPClient$"
        r"|MCPConfiguration$|MCPTools$|MultiMCPTools$",
    ),
    (
        "file write",
        r"\.save_pretrained\w*$|\.write_(?:text|bytes|pdf|image|html|videofile|audiofile|index|parquet)$"
        r"|writeFile(?:Sync)?$|appendFile(?:Sync)?$"
        r"|(?:writeJson|outputFile|outputJson)(?:Sync)?$|createWriteStream"
        r"|^shutil\.(?:copy\w*|move|make_archive|chown)$"
        r"|^os\.(?:makedirs|mkdir|rename|renames|replace|symlink|link|chmod|chown|truncate|mkfifo)$"
        r"|\.to_(?:csv|json|excel|parquet|pickle|feather|hdf)$|\.savefig$|\.touch$|\.symlink_to$"
        r"|FileWriterTool|WriteFileTool|WriteFile$|ApplyPatchTool|FileManagementToolkit"
        r"|mkdirSync|\.mkdir$|\.save$|save_local$|dump_to_file|set_key$|\.persist$"
        r"|shutil\.unpack_archive|\.extractall$|imwrite$|soundfile\.write$|wavfile\.write$"
        r"|(?:^|\.)fs\S*\.(?:rename|copyFile|cp|symlink|truncate|chmod)(?:Sync)?$"
        r"|Deno\.(?:write\w*|mkdir|rename|copyFile)(?:Sync)?$|Bun\.write$"
        r"|\.files\.(?:write|makeDir|make_dir|rename)$|urlretrieve$|snapshot_download$"
        r"|hf_hub_download$",
    ),
    (
        "file write",  # videos, sounds, graphs of pages
        r"(?:YoutubeDL|youtube_dl\S*|yt_dlp\S*|pytube\w*\.\S*)\.download$|^ffmpeg\.(?:\S+\.)?run(?:_async)?$"
        r"|pydub\.\S*\.export$|pyvis\.\S*\.(?:save_graph|write_html|show)$|\.a?save_all_\w+$"
        r"|^(?:whisper\w*|imageio\w*)\.(?:\S+\.)?get_writer$"
        r"|^pathlib\.Path(?:\.(?:with_\w+|resolve|absolute|expanduser|parent))*\.(?:rename|replace)$",
    ),
    (
        "database write",
        r"insert_(?:one|many)|update_(?:one|many)|replace_one|(?:delete|drop)_(?:one|many)$"
        r"|find_one_and_(?:update|replace|delete)$|bulk_write$|add_documents|add_texts"
        r"|add_embeddings|add_graph_documents|upsert_\w+$|from_documents|from_texts|\.upsert$"
        r"|executemany|(?:session|db|tx)\.(?:add|add_all|commit|merge|bulk_\w+)$"
        r"|(?:conn|connection|cursor|cur|con|cnx)\w*\.commit$|\.(?:create|drop)_all$"
        r"|prisma\.\w+\.(?:create|update|delete|upsert)|\bdb\.(?:insert|update|delete)\b"
        r"|(?<=\.)objects\.(?:\w+\.)*(?:create|update|delete|get_or_create|update_or_create|bulk_create|bulk_update)$"
        r"|\bquery\.(?:filter\w*\.)+(?:delete|update)$"
        r"|\.(?:from_?|table)\.(?:\w+\.)*(?:insert|update|upsert|delete)\b"
        r"|(?:^|[._])store\.a?(?:put|delete)$"
        r"|(?:^|[._])(?:memory|mem0)\w*\.(?:\w+\.)*(?:add|delete|update)$"
        r"|(?:^|[._])collection\.(?:add|update|upsert|delete)$"
        r"|(?:insert|update|delete|replace)(?:One|Many)$|find(?:One|ById)And\w+$|bulkWrite$"
        r"|\.setex$|create_collection|create_index$|SQLAlchemySession|SQLiteSession"
        r"|PersistentClient|\.to_sql$",
    ),
    (
        "database write",  # LangGraph's store and threads, DynamoDB, Firestore, Neo4j, vectors
        r"\bstore\.a?put$|(?:put|delete)Item$|(?:put|update|delete|batch_write)_item$"
        r"|\bthreads\.(?:update\w*|delete)$|^(?:addDoc|setDoc|updateDoc|deleteDoc)$"
        r"|\.(?:doc|document)\.(?:set|update|delete|create)$|execute_write$|executeWrite$"
        r"|write_transaction$|writeTransaction$|addDocuments$|fromDocuments$|fromTexts$"
        r"|addVectors$|insert_nodes$|upload_points$|upload_collection$|set_payload$"
        r"|data\.insert(?:_many)?$|add_data_object$|SQLDatabaseToolkit$|QuerySQL\w*Tool$"
        r"|create_sql_agent$|SQLDatabaseChain$|SQLDatabaseSequentialChain$|NL2SQLTool$"
        r"|DatabaseToolSpec$",
    ),
    (
        "post",
        r"(?<!threads\.)\bruns\.create$"
        # what providers of models keep: assistants, files, their stores
        r"|(?:assistants|vector_?[sS]tores(?:\.file(?:s|_?[bB]atches))?|fine_tuning\.jobs|fineTuning\.jobs"
        r"|(?:openai|together|groq|anthropic|mistralai)\S*\.(?:files|batches|containers|uploads))"
        r"\.(?:create\w*|update|modify|delete|del|upload\w*|add\w*)$"
        r"|@aws-sdk/(?!client-bedrock)[\w-]+\.(?:Put|Delete|Send|Publish|Update|Create|Start|Stop|Terminate|Run|Copy|Upload|Invoke)\w*(?:Command)?$",
    ),
    (
        "desktop",
        r"^pyautogui\.|^pydirectinput\.|^pynput\."
        r"|\bdesktop\.(?:\w*[cC]lick|write|press|drag|scroll|moveMouse)$|^webbrowser\.open"
        r"|\.(?:click|fill|goto|send_keys|select_option|selectOption|set_input_files|setInputFiles|press_sequentially|pressSequentially|goBack|go_back)$"
        r"|\bpage\.(?:act|type|press|check|hover)$"
        r"|(?:keyboard|mouse)\.(?:type|press(?:Key)?|(?:left|right|double)?[cC]lick|move|down|drag|setPosition)$|ImageGrab|(?:^|\.)ComputerTool$"
        r"|computerTool$|StagehandTool$|PlayWright\w*Toolkit$|PlaywrightToolSpec$"
        r"|MultimodalWebSurfer$|browser_use\.(?:\w+\.)*Agent(?:\.run(?:_sync)?)?$"
        r"|browser_use\.\S*\.(?:execute_action|multi_act)$",
    ),
)
"""Calls by the dotted name that is written, or by the outside name that it stands for."""

_READ: tuple[tuple[EffectKind, str], ...] = (
    (
        "database read",
        r"asyncpg\.|psycopg|create_engine|sqlite3\.connect|pymongo|MongoClient|[Pp]inecone"
        r"|[Cc]hroma|redis|Neo4j|weaviate|qdrant|fetch(?:val|row|all|one)$|create_pool",
    ),
    (
        "web read",
        r"[Tt]avily|[Ff]irecrawl|[Ss]erper|Exa\b|Exa[A-Z]|DuckDuckGo|DDGS|ScrapeWebsite"
        r"|WebSearchTool|SerpAPI|BraveSearch|(?:requests|httpx|aiohttp|axios|session)\w*\.get$"
        r"|^fetch$|wikipedia|arxiv|urlopen",
    ),
)

_TOOLKITS: tuple[tuple[EffectKind, str], ...] = (
    ("mail", r"Email|Resend|Gmail|Mailgun|AWSSES|Outlook"),
    ("shell", r"Shell|Docker|AWSLambda|Airflow"),
    ("exec", r"Python|E2B|Daytona"),
    ("file write", r"File|LocalFileSystem|FileGeneration"),
    ("database write", r"SQL|DuckDb|Postgres|Mem0|Zep|Memori|Neo4j|BigQuery|Redshift"),
    ("desktop", r"Browserbase|WebBrowser"),
    (
        "post",
        r"Slack|Telegram|Twilio|WhatsApp|Discord|Webex|Zoom|GoogleCalendar|CalCom|Github"
        r"|Bitbucket|Jira|Linear|Confluence|Trello|Todoist|ClickUp|Notion|GoogleSheets"
        r"|GoogleDrive|X|Twitter|Reddit|Zendesk|Shopify|Composio|CustomApi|Api|EVM",
    ),
)
"""Toolkits of Agno and phidata by their names without `Tools`."""

_CLIENTS: tuple[tuple[EffectKind, str], ...] = (
    (
        "mail",
        r"smtplib|aiosmtplib|yagmail|redmail|sendgrid|@sendgrid|resend|mailgun|postmark\w*"
        r"|mailjet\w*|mailtrap|sib_api_v3_sdk|brevo\w*|nodemailer|imaplib|imap_tools|exchangelib"
        r"|O365|simplegmail|ezgmail|nylas",
    ),
    (
        "payment",
        r"square|plaid|razorpay|paddle_billing|@paddle|adyen|mollie|coinbase\w*|paypalrestsdk"
        r"|@paypal|alpaca\w*|@alpacahq|ccxt|binance|ib_insync|ib_async|robin_stocks|kiteconnect"
        r"|oandapyV20|py_clob_client|web3|ethers|viem|solana|solders|payman\w*",
    ),
    (
        "post",  # messages and social networks
        r"slack_sdk|slack_bolt|slack|@slack|twilio|discord|nextcord|disnake|discord\.js|telegram"
        r"|evolutionapi|telebot|aiogram|pyrogram|telethon|grammy|telegraf|node-telegram-bot-api|pywa"
        r"|whatsapp\w*|heyoo|linebot|nio|mattermostdriver|zulip|webexteamssdk|rocketchat_API"
        r"|tweepy|twitter|twitter-api-v2|twikit|praw|asyncpraw|snoowrap|linkedin_api|instagrapi"
        r"|instabot|mastodon|atproto|@atproto|facebook|pyfacebook|vk_api|pushbullet|vonage"
        r"|pusher|novu",
    ),
    (
        "post",  # code, tickets, customers, documents
        r"github|ghapi|@octokit|octokit|gitlab|@gitbeaker|azure\.devops|bitbucket|jira|jira\.js"
        r"|atlassian|@linear|linear\w*|notion_client|@notionhq|airtable|pyairtable|hubspot"
        r"|@hubspot|simple_salesforce|jsforce|pipedrive|zohocrmsdk|gspread\w*|pygsheets|dropbox"
        r"|boxsdk|box_sdk_gen|trello|trello\.js|asana|zendesk|zenpy|intercom|monday|pyclickup"
        r"|todoist_api_python|@doist|shopify|@shopify|woocommerce|klaviyo_api|mailchimp\w*"
        r"|contentful\w*|@sanity|docusign\w*|confluence|servicenow|pysnow|caldav|googleapiclient"
        r"|googleapis|@googleapis|msgraph|@microsoft/microsoft-graph-client|msal"
        r"|wordpress_xmlrpc|ghost|figma|miro_api|pagerduty|pdpyras|opsgenie_sdk"
        r"|datadog_api_client",
    ),
    (
        "post",  # clouds, queues, sandboxes, things
        r"boto3|aioboto3|botocore|aiobotocore|google\.cloud|@google-cloud"
        r"|azure\.(?!ai|identity|core|search|cognitiveservices)\w+|@azure/(?!openai|identity|core|search)[\w-]+|kafka"
        r"|confluent_kafka|aiokafka|kafkajs|pika|aio_pika|amqplib|nats|kombu|celery|dramatiq|rq"
        r"|bullmq|bull|paho|aiomqtt|asyncio_mqtt|mqtt|zmq|kubernetes|@kubernetes|kr8s|docker"
        r"|aiodocker|dockerode|digitalocean|pydo|cloudflare|heroku3|fabric|asyncssh|paramiko"
        r"|netmiko|napalm|ansible_runner|node-ssh|ssh2|minio|b2sdk|@browserbasehq|browserbase"
        r"|steel\w*|hyperbrowser|@hyperbrowser|daytona\w*|@daytonaio|modal|homeassistant_api"
        r"|phue|kasa|pychromecast|tuya\w*|spotipy|composio\w*|arcadepy|@arcadeai|huggingface_hub"
        r"|inngest|@trigger|@upstash/qstash",
    ),
    (
        "post",  # requests
        r"requests|httpx|aiohttp|httplib2|urllib3|got|ky|superagent|ofetch|undici|axios|niquests"
        r"|treq",
    ),
    (
        "database write",
        r"sqlalchemy|sqlmodel|django\.db|peewee|tortoise|pony|ormar|beanie|odmantic|mongoengine"
        r"|pymongo|motor|mongodb|mongoose|@prisma|prisma|drizzle-orm|typeorm|sequelize|knex"
        r"|kysely|mikro-orm|@mikro-orm|objection|supabase|@supabase|firebase_admin|firebase"
        r"|google\.cloud\.firestore|pynamodb|redis|aioredis|ioredis|@upstash/redis|@vercel/kv"
        r"|@vercel/postgres|elasticsearch|opensearchpy|@elastic|meilisearch|typesense"
        r"|algoliasearch|influxdb_client|clickhouse_connect|clickhouse_driver|cassandra|couchdb"
        r"|couchbase|arango|surrealdb|tinydb|diskcache|duckdb|neo4j|py2neo|graphiti_core|kuzu"
        r"|chromadb|pinecone|@pinecone-database|qdrant_client|@qdrant|weaviate|weaviate-client"
        r"|pymilvus|@zilliz|lancedb|vectordb|@lancedb|zep_cloud|zep_python|mem0|mem0ai"
        r"|letta_client|cognee|azure\.cosmos|@azure/cosmos|azure\.search|@azure/search|convex",
    ),
    ("file write", r"git|simple-git|isomorphic-git|fpdf|reportlab|pypdf|fitz|xlsxwriter|h5py|zarr"),
    (
        "desktop",
        r"playwright|@playwright|puppeteer|puppeteer-core|selenium|stagehand|nodriver|pydoll"
        r"|appium|uiautomator2|adbutils|pywinauto|browser_use|@nut-tree",
    ),
)
"""Packages of clients: their methods act if their names say so."""

_BARE_WORDS = re.compile(
    r"^(?:order_?by|like|close|set|start|stop|write|type|create|add|update|store|batch|import|link"
    r"|append|merge|replace|move|join|clear|all|order|subscribe|act|press|load|react|transaction)$",
    re.IGNORECASE,
)
"""Bare words that mean much: those need a row of their own."""
_BARE: dict[str, frozenset[str]] = {
    "mail": frozenset(["append", "store"]),
    "post": frozenset(
        {
            *("create", "update", "add", "set", "append", "move", "clear", "batch", "write"),
            *("start", "stop", "subscribe", "react", "link"),
        }
    ),
    "payment": frozenset(["create"]),
    "database write": frozenset(
        {
            *("create", "update", "add", "set", "write", "merge", "move", "replace", "clear"),
            *("store", "link", "batch"),
        }
    ),
    "file write": frozenset(["output", "add"]),
    "desktop": frozenset(["type", "press", "act"]),
}
"""Bare words that act as methods of clients of a kind."""
_BUILDERS = frozenset(["insert", "update", "delete", "select", "bulk"])
"""Functions that build a statement, which something else runs."""
_COLLECTING = frozenset(["append", "add", "update", "set", "insert", "remove", "clear", "delete"])
"""Methods that lists, sets and dicts have too: not of what a client read."""

NAMED = [(kind, re.compile(pattern)) for kind, pattern in _NAMED]
READ = [(kind, re.compile(pattern)) for kind, pattern in _READ]
_PACKAGES = [(kind, re.compile(rf"(?:{pattern})(?=[./-]|$)")) for kind, pattern in _CLIENTS]
_GIVEN = [
    (kind, re.compile(rf"^(?:agno|phi)\.\S*\.(?:{pattern})(?:Tools|Toolkit)?$"))
    for kind, pattern in _TOOLKITS
]


def is_listed_client(outside: str) -> bool:
    """Whether an outside name is of a client in the tables."""
    return any(pattern.match(outside) for _, pattern in _PACKAGES)


def client_effect(outside: str) -> EffectKind | None:
    """The effect of a method of a known client or a toolkit, by its outside name."""
    for kind, pattern in _GIVEN:
        if pattern.match(outside):
            return kind
    owner, _, method = outside.rpartition(".")
    if not owner or not says_that_it_acts(method):
        return None
    for kind, pattern in _PACKAGES:
        if pattern.match(outside):
            steps = owner.split(".")
            before = words_of(steps[-1])
            if (SETTING_UP.match(method) or _BARE_WORDS.match(method)) and method not in _BARE.get(
                kind, frozenset()
            ):
                return None
            if len(steps) > 1 and method == "create" and before[-1:] in (["client"], ["pool"]):
                return None
            if method in _COLLECTING and any(
                (words_of(one) or [""])[0] in READING for one in steps[-2:] if one[:1].islower()
            ):
                return None
            builds = method in _BUILDERS and outside.startswith(("sqlalchemy.", "sqlmodel."))
            if builds and "ession" not in outside:
                return None
            if method[:1].isupper():  # a class, such as that of a request: what sends it acts
                return None
            return kind
    return None
